"""The open loop's schedule keeps its instants, independent of the system's speed."""

from __future__ import annotations

import pytest

from loadtests.generators.schedule import Schedule


def test_requests_are_due_at_fixed_instants() -> None:
    schedule = Schedule(4.0, 10.0)
    assert [schedule.take() for _ in range(3)] == pytest.approx([10.0, 10.25, 10.5])
    assert schedule.next_at == pytest.approx(10.75)


def test_after_a_stall_missed_requests_keep_their_own_instants() -> None:
    schedule = Schedule(4.0, 10.0)
    assert schedule.take_due(10.1) == pytest.approx([10.0])
    assert schedule.take_due(11.1) == pytest.approx([10.25, 10.5, 10.75, 11.0])
    assert schedule.take_due(11.1) == []


def test_rounding_never_drifts() -> None:
    schedule = Schedule(3.0, 0.0)
    assert len(schedule.take_due(999.9)) == 3000
    assert schedule.next_at == pytest.approx(1000.0)
