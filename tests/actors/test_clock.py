"""Hosts use the database's clock, independent of the machine's clock, and refuse readings out of bounds."""

from __future__ import annotations

import time

import pytest

from actors.clock import ROUND_TRIP_SECONDS_MAX, DatabaseClock
from actors.journal.postgres import PostgresJournal
from engine.limits import CLOCK_DRIFT_MAX, CLOCK_START_SECONDS_MAX, CLOCK_STEP_SECONDS_MAX
from tests.conftest import PostgresServer

NOON_MS = 1_800_000_000_000
DAY_MS = 86_400_000


class ManualMonotonic:
    """A monotonic clock that only tests move."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def monotonic() -> ManualMonotonic:
    return ManualMonotonic()


@pytest.fixture
def clock(monotonic: ManualMonotonic) -> DatabaseClock:
    clock = DatabaseClock(monotonic, lambda: NOON_MS)
    clock.set(NOON_MS, monotonic.seconds, monotonic.seconds)
    return clock


def test_time_passes_between_readings(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    assert clock.now_ms() == NOON_MS
    monotonic.seconds += 1.5
    assert clock.now_ms() == NOON_MS + 1_500
    assert clock.monotonic() == monotonic.seconds


def test_setting_the_machine_clock_has_no_effect(
    clock: DatabaseClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    assert clock.now_ms() == NOON_MS


def test_reading_corrects_the_time(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    clock.set(NOON_MS + 80, monotonic.seconds - 0.02, monotonic.seconds)
    assert clock.now_ms() == NOON_MS + 90


def test_time_never_goes_back(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    assert clock.now_ms() == NOON_MS
    clock.set(NOON_MS - 20_000, monotonic.seconds, monotonic.seconds)
    assert clock.trusted
    assert clock.now_ms() == NOON_MS
    monotonic.seconds += 20.5
    assert clock.now_ms() == NOON_MS + 500


@pytest.mark.parametrize("days", [400, 1, -1, -400])
def test_reading_with_a_jump_is_refused_and_has_no_effect(
    clock: DatabaseClock, monotonic: ManualMonotonic, days: int
) -> None:
    monotonic.seconds += 10
    clock.set(NOON_MS + 10_000 + days * DAY_MS, monotonic.seconds, monotonic.seconds)
    assert not clock.trusted
    assert str(86_400) in str(clock.refusal) or abs(days) > 1
    assert clock.now_ms() == NOON_MS + 10_000


def test_reading_within_bounds_ends_a_refusal(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    clock.set(NOON_MS + DAY_MS, monotonic.seconds, monotonic.seconds)
    monotonic.seconds += 5
    clock.set(NOON_MS + 5_100, monotonic.seconds, monotonic.seconds)
    assert clock.trusted
    assert clock.now_ms() == NOON_MS + 5_100


@pytest.mark.parametrize(
    ("apart_seconds", "trusted"),
    [(0, True), (CLOCK_START_SECONDS_MAX, True), (CLOCK_START_SECONDS_MAX + 1, False), (-86_400, False)],
)
def test_first_reading_must_agree_with_the_machine(
    monotonic: ManualMonotonic, apart_seconds: float, trusted: bool
) -> None:
    clock = DatabaseClock(monotonic, lambda: NOON_MS)
    clock.set(NOON_MS + int(1000 * apart_seconds), monotonic.seconds, monotonic.seconds)
    assert clock.trusted is trusted
    if not trusted:
        with pytest.raises(RuntimeError):
            clock.now_ms()
        clock.set(NOON_MS, monotonic.seconds, monotonic.seconds)
        assert clock.trusted
        assert clock.refusal is None


def test_small_steps_do_not_add_up_to_a_large_one(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    database_ms = NOON_MS
    for _ in range(200):
        monotonic.seconds += 10
        database_ms += 10_000 + 5_000
        clock.set(database_ms, monotonic.seconds, monotonic.seconds)
    passed_ms = 200 * 10_000
    most_ms = 1000 * CLOCK_STEP_SECONDS_MAX + CLOCK_DRIFT_MAX * passed_ms
    assert NOON_MS + passed_ms < clock.now_ms() <= NOON_MS + passed_ms + most_ms
    assert not clock.trusted


def test_default_clock_counts_suspension_where_the_system_has_such_a_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Waking up is then no jump."""
    monkeypatch.setattr(time, "monotonic", lambda: 0.0)
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    expected = 0.0 if boot_time is None else time.clock_gettime(boot_time)
    assert DatabaseClock().monotonic() == pytest.approx(expected, abs=60)


def test_default_clock_is_monotonic_on_other_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "monotonic", lambda: 7.0)
    assert DatabaseClock().monotonic() == 7.0


def test_reading_with_a_long_round_trip_is_ignored(clock: DatabaseClock, monotonic: ManualMonotonic) -> None:
    received = monotonic.seconds + 2 * ROUND_TRIP_SECONDS_MAX
    clock.set(NOON_MS + 60_000, monotonic.seconds, received)
    assert clock.now_ms() == NOON_MS


def test_first_reading_is_adopted_despite_a_long_round_trip(monotonic: ManualMonotonic) -> None:
    late = DatabaseClock(monotonic, lambda: NOON_MS)
    with pytest.raises(RuntimeError):
        late.now_ms()
    late.set(NOON_MS, monotonic.seconds - 1.0, monotonic.seconds + 1.0)
    assert late.now_ms() == NOON_MS


async def test_journal_reads_the_clock_of_the_database(postgres_server: PostgresServer) -> None:
    journal = PostgresJournal(postgres_server.admin_url, "host-clock")
    before = await journal.now_ms()
    after = await journal.now_ms()
    await journal.close()
    # Server and test share a machine.
    assert abs(before - time.time_ns() // 1_000_000) < 60_000
    assert before <= after
