"""The announcer queues wake-ups, drops them when Redis is away, and never delays its caller."""

from __future__ import annotations

import asyncio

import pytest

from actors.ids import new_id
from actors.outbox.announcer import Announcer
from actors.outbox.stream import StreamUnavailableError, WakeUp


def wake_ups(count: int) -> list[WakeUp]:
    return [WakeUp(new_id(), new_id()) for _ in range(count)]


async def test_announcer_drops_and_counts_wake_ups_that_redis_refuses() -> None:
    class Away:
        tried = 0

        async def add(self, _wake_ups: object) -> None:
            self.tried += 1
            raise StreamUnavailableError

    away = Away()
    announcer = Announcer(away)
    announcer.announce(wake_ups(300))
    await announcer.stop()
    assert (announcer.dropped, away.tried) == (300, 2)


async def test_announcer_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actors.outbox.announcer.WAKE_UPS_WAITING_MAX", 500)
    monkeypatch.setattr("actors.outbox.announcer.REDIS_TIMEOUT_SECONDS", 0.05)
    released = asyncio.Event()

    class Hanging:
        taken = 0

        async def add(self, wake_ups: object) -> None:
            await released.wait()
            assert isinstance(wake_ups, list)
            self.taken += len(wake_ups)

    hanging = Hanging()
    announcer = Announcer(hanging)
    announcer.announce(wake_ups(1_000))
    assert announcer.dropped == 512
    await announcer.stop()
    assert hanging.taken == 0
    released.set()
    await announcer.stop()
    assert hanging.taken == 488
    announcer.announce(wake_ups(256))
    assert announcer.dropped == 512
    await announcer.stop()
