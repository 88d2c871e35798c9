"""A server that ends is restarted with a back-off, and never given up."""

from __future__ import annotations

import pytest

from ops.embedded.process import ServerError
from ops.supervision.restarter import PAUSE_SECONDS_MAX, PAUSE_SECONDS_MIN, STABLE_SECONDS, ServerRestarter


class FakeServer:
    """A server that ends at once while the disk is full."""

    def __init__(self) -> None:
        self.alive = True
        self.full = False
        self.starts = 0
        self.failure: Exception | None = None

    def running(self) -> bool:
        return self.alive

    def revive(self) -> bool:
        if self.alive:
            return False
        self.starts += 1
        if self.failure is not None:
            raise self.failure
        self.alive = not self.full
        return True

    def end(self) -> None:
        self.alive = False


class FakeClock:
    def __init__(self) -> None:
        self.seconds = 1_000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def server() -> FakeServer:
    return FakeServer()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def revival(server: FakeServer, clock: FakeClock) -> ServerRestarter:
    return ServerRestarter(server, clock)


def run(revival: ServerRestarter, clock: FakeClock, seconds: float) -> int:
    """Step every 50 ms; returns the number of steps that callers would report."""
    reported = 0
    for _ in range(round(seconds * 20)):
        reported += revival.step()
        clock.seconds += 0.05
    return reported


def test_running_server_is_left_alone(revival: ServerRestarter, server: FakeServer, clock: FakeClock) -> None:
    assert run(revival, clock, 60) == 0
    assert server.starts == 0


def test_killed_server_is_started_at_once(revival: ServerRestarter, server: FakeServer) -> None:
    server.end()
    assert revival.step()
    assert server.running()


def test_server_on_a_full_disk_is_restarted_without_limit(
    revival: ServerRestarter, server: FakeServer, clock: FakeClock
) -> None:
    server.full = True
    server.end()
    assert run(revival, clock, 3_600) == 1
    assert 3_600 / PAUSE_SECONDS_MAX * 0.9 < server.starts < 3_600 / PAUSE_SECONDS_MIN / 4
    server.full = False
    run(revival, clock, PAUSE_SECONDS_MAX + 0.1)
    assert server.running()


@pytest.mark.parametrize("failure", [OSError("No space left on device"), ServerError("does not end")])
def test_start_that_fails_is_an_attempt(
    revival: ServerRestarter, server: FakeServer, clock: FakeClock, failure: Exception
) -> None:
    server.failure = failure
    server.end()
    assert run(revival, clock, 10) == 1
    server.failure = None
    run(revival, clock, PAUSE_SECONDS_MAX + 0.1)
    assert server.running()


def test_stable_server_begins_again_with_the_shortest_pause(
    revival: ServerRestarter, server: FakeServer, clock: FakeClock
) -> None:
    server.full = True
    server.end()
    run(revival, clock, 60)
    server.full = False
    run(revival, clock, PAUSE_SECONDS_MAX + STABLE_SECONDS + 1)
    starts = server.starts
    server.end()
    assert revival.step()
    assert server.starts == starts + 1
