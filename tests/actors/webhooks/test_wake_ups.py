"""Open wake-ups are acknowledged when their delivery is finished, and left to others when it is forgotten."""

from __future__ import annotations

from actors.webhooks.wake_ups import OpenWakeUps
from tests.support.actors.webhooks.support import MemoryStream


async def test_finished_deliveries_are_acknowledged_once() -> None:
    stream = MemoryStream()
    wake_ups = OpenWakeUps(stream)
    wake_ups.add("d-1", "1-0")
    wake_ups.add("d-2", "2-0")
    assert "d-1" in wake_ups
    wake_ups.finish(["d-1", "without a wake-up"])
    wake_ups.finish(["d-1"])
    await wake_ups.drain()
    assert stream.acknowledged == ["1-0"]
    assert "d-1" not in wake_ups
    assert "d-2" in wake_ups


async def test_forgotten_delivery_is_not_acknowledged() -> None:
    stream = MemoryStream()
    wake_ups = OpenWakeUps(stream)
    wake_ups.add("d-1", "1-0")
    wake_ups.forget("d-1")
    wake_ups.finish(["d-1"])
    await wake_ups.drain()
    assert stream.acknowledged == []
    assert "d-1" not in wake_ups


async def test_unavailable_stream_does_not_fail_the_acknowledgement() -> None:
    stream = MemoryStream(available=False)
    wake_ups = OpenWakeUps(stream)
    wake_ups.acknowledge(["1-0"])
    await wake_ups.drain()
    assert stream.acknowledged == []
