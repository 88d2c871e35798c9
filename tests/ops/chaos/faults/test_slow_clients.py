"""What the fault of slow clients expects of the decisions beside them."""

from __future__ import annotations

import pytest

from ops.chaos.faults.slow_clients import SLOWER_MAX, Round


@pytest.mark.parametrize(
    ("before", "beside", "held"),
    [
        (0.100, 0.200, True),
        (0.100, 0.201, False),
        (0.057, 0.151, False),
        (0.002, 0.050, True),
        (0.002, 0.051, False),
        (0.222, 0.154, True),
    ],
)
def test_decisions_may_take_twice_as_long_or_fifty_milliseconds(
    before: float, beside: float, held: bool
) -> None:
    assert (Round(before, beside, 11.0).slower <= SLOWER_MAX) == held
