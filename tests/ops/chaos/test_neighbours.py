"""What the drill on a greedy tenant concludes from the output of the load test."""

from __future__ import annotations

import pytest

from ops.chaos.errors import NotInjectedError
from ops.chaos.neighbours import judge

TABLE = """
| tenant | decisions | p50 ms | p99 ms | failed | API calls | p50 ms | p99 ms | failed |
|---|---|---|---|---|---|---|---|---|
| alone | 7,500 | 1.9 | 9.1 | 0 | 600 | 5.0 | 30.0 | 0 |
| beside the greedy tenant | 7,500 | 2.9 | 19.5 | 0 | 600 | 9.0 | 80.0 | 0 |
"""


def test_figure_is_the_percentile_beside_the_greedy_tenant() -> None:
    outcome = judge(TABLE, 0)
    assert (outcome.figure, outcome.broken) == (19.5, [])


def test_targets_that_the_load_test_misses_are_broken() -> None:
    missed = "p99 of decisions is 31.0 ms, more than 25"
    assert judge(f"{TABLE}BROKEN: {missed}\n", 1).broken == [missed]


def test_failure_without_a_missed_target_is_broken_too() -> None:
    assert judge(TABLE, 2).broken == ["exit status 2"]


@pytest.mark.parametrize("output", ["", "loadtests.fairness: the edge did not start"])
def test_output_without_figures_is_no_result(output: str) -> None:
    with pytest.raises(NotInjectedError):
        judge(output, 1)
