"""One clock for all hosts: the database's, whatever the machine's own one says."""

from __future__ import annotations

import time

import pytest

from actors.clock import ROUND_TRIP_SECONDS_MAX, DatabaseClock
from actors.journal.postgres import PostgresJournal
from tests.conftest import PostgresServer

NOON_MS = 1_800_000_000_000


class Passing:
    """A monotonic clock in the test's hands."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def passing() -> Passing:
    return Passing()


@pytest.fixture
def clock(passing: Passing) -> DatabaseClock:
    made = DatabaseClock(passing)
    made.set(NOON_MS, passing.seconds, passing.seconds)
    return made


def test_it_goes_on_by_itself(clock: DatabaseClock, passing: Passing) -> None:
    assert clock.now_ms() == NOON_MS
    passing.seconds += 1.5
    assert clock.now_ms() == NOON_MS + 1_500
    assert clock.monotonic() == passing.seconds


def test_a_machine_whose_clock_is_set_changes_nothing(
    clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() == NOON_MS


def test_it_follows_the_database(clock: DatabaseClock, passing: Passing) -> None:
    clock.set(NOON_MS + 80, passing.seconds - 0.02, passing.seconds)
    assert clock.now_ms() == NOON_MS + 90


def test_it_never_goes_back(clock: DatabaseClock, passing: Passing) -> None:
    assert clock.now_ms() == NOON_MS
    clock.set(NOON_MS - 60_000, passing.seconds, passing.seconds)
    assert clock.now_ms() == NOON_MS
    passing.seconds += 60.5
    assert clock.now_ms() == NOON_MS + 500


def test_an_answer_that_was_long_on_its_way_says_nothing(clock: DatabaseClock, passing: Passing) -> None:
    heard = passing.seconds + 2 * ROUND_TRIP_SECONDS_MAX
    clock.set(NOON_MS + 60_000, passing.seconds, heard)
    assert clock.now_ms() == NOON_MS


def test_the_first_answer_counts_however_long_it_took(passing: Passing) -> None:
    late = DatabaseClock(passing)
    with pytest.raises(RuntimeError):
        late.now_ms()
    late.set(NOON_MS, passing.seconds - 1.0, passing.seconds + 1.0)
    assert late.now_ms() == NOON_MS


async def test_the_database_tells_the_time(postgres_server: PostgresServer) -> None:
    journal = PostgresJournal(postgres_server.admin_url, "host-clock")
    before = await journal.now_ms()
    after = await journal.now_ms()
    await journal.close()
    # Server and test share a machine.
    assert abs(before - time.time_ns() // 1_000_000) < 60_000
    assert before <= after
