"""A suite holds only if pytest succeeds and has run at least one test."""

from __future__ import annotations

import pytest

from ops.chaos.suites import ROOT, SUITES, Suite, _seeds, judge

PASSED = "....                                        [100%]\n4 passed in 42.64s\n"


@pytest.mark.parametrize(
    ("output", "status", "figure", "broken"),
    [
        (PASSED, 0, 4, []),
        (PASSED + "Task was destroyed but it is pending!\n", 0, 4, []),
        ("1 failed, 3 passed in 2.01s\n", 1, 3, ["1 failed, 3 passed in 2.01s"]),
        ("3 passed, 1 error in 2.01s\n", 1, 3, ["3 passed, 1 error in 2.01s"]),
        ("no tests ran in 0.15s\n", 5, 0, ["no tests ran in 0.15s"]),
        ("2 skipped in 0.15s\n", 0, 0, ["2 skipped in 0.15s"]),
        ("", -9, 0, ["pytest printed no summary"]),
        (PASSED, 1, 4, ["4 passed in 42.64s"]),
    ],
)
def test_outcome_of_pytest_output(output: str, status: int, figure: float, broken: list[str]) -> None:
    outcome = judge(output, status)
    assert (outcome.figure, outcome.broken) == (figure, broken)


def test_seeds_by_minutes_and_in_the_long_form() -> None:
    seeded = Suite("G1", "seeds", "x", 60, 1_000)
    assert [_seeds(seeded, minutes) for minutes in (0.001, 0.5, 10.0, None)] == [1, 30, 600, 1_000]
    assert [_seeds(Suite("G1", "none", "x"), minutes) for minutes in (1.0, None)] == [0, 0]
    assert all(bool(suite.seeds_per_minute) == bool(suite.seeds_long) for suite in SUITES)


def test_every_suite_exists() -> None:
    assert [suite.path for suite in SUITES if not (ROOT / suite.path).is_file()] == []
