"""A run takes about the requested minutes and does everything at least once; a long run counts rounds."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import pytest

from ops.chaos.faults.catalogue import ALL_FAULTS
from ops.chaos.faults.fault import Fault
from ops.chaos.timetable import LONG, LONG_ROUNDS, SEEDS_MINUTES_MIN, Timetable, long_turns

FAULTS = [Fault("G1", name, "s", None) for name in ("one", "two", "three")]


class Clock:
    """A clock that moves only on request."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def names(turns: object) -> list[str]:
    return [fault.name for fault in turns]  # type: ignore[attr-defined]


def test_faults_get_half_of_the_minutes(clock: Clock) -> None:
    turns = Timetable(20, clock=clock).turns(FAULTS)
    assert names(islice(turns, 4)) == ["one", "two", "three", "one"]
    clock.seconds += 599
    assert names(islice(turns, 1)) == ["two"]
    clock.seconds += 1
    assert names(turns) == []


def test_faults_alone_get_all_minutes(clock: Clock) -> None:
    timetable = Timetable(20, shared=False, clock=clock)
    assert timetable.faults_seconds() == 1200


def test_one_round_always_completes(clock: Clock) -> None:
    done = []
    for fault in Timetable(1, clock=clock).turns(FAULTS):
        done.append(fault.name)
        clock.seconds += 600
    assert done == ["one", "two", "three"]
    assert names(Timetable(1, clock=clock).turns([])) == []


def test_seeds_get_the_remaining_time(clock: Clock) -> None:
    timetable = Timetable(20, clock=clock)
    clock.seconds += 16 * 60
    assert timetable.seeds_minutes(2) == pytest.approx(2)
    clock.seconds += 60
    assert timetable.seeds_minutes(1) == pytest.approx(3)
    clock.seconds += 600
    assert timetable.seeds_minutes(1) == SEEDS_MINUTES_MIN


def test_a_long_run_spreads_its_rounds_evenly() -> None:
    turns = names(long_turns(FAULTS, {"one": 9, "two": 3, "three": 1}))
    assert Counter(turns) == {"one": 9, "two": 3, "three": 1}
    assert [turns[: at + 1].count("one") for at, name in enumerate(turns) if name == "two"] == [3, 6, 9]
    assert names(long_turns([])) == []


def test_every_fault_of_the_long_form_exists() -> None:
    assert set(LONG) <= {fault.name for fault in ALL_FAULTS}
    assert set(Counter(names(long_turns(ALL_FAULTS))).values()) == {*LONG.values(), LONG_ROUNDS}
