"""The loop of the tests: pauses of the process end no deadline, and tests can move its clock."""

from __future__ import annotations

import asyncio
import selectors
import time

import pytest

from tests.support.steady_loop import STEP_SECONDS, advance

PAUSE_SECONDS = 0.2


async def test_pause_in_a_callback_ends_no_deadline() -> None:
    async with asyncio.timeout(PAUSE_SECONDS / 2):
        time.sleep(PAUSE_SECONDS)
        await asyncio.sleep(STEP_SECONDS)


async def test_pause_during_a_wait_ends_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    select, pauses = selectors.DefaultSelector.select, [PAUSE_SECONDS]

    def paused(
        self: selectors.DefaultSelector, timeout: float | None = None
    ) -> list[tuple[selectors.SelectorKey, int]]:
        time.sleep(pauses.pop() if pauses else 0.0)
        return select(self, timeout)

    monkeypatch.setattr(selectors.DefaultSelector, "select", paused)
    async with asyncio.timeout(PAUSE_SECONDS / 2):
        await asyncio.sleep(STEP_SECONDS)
    assert pauses == []


async def test_timer_is_never_early() -> None:
    loop, began = asyncio.get_running_loop(), time.monotonic()
    begun = loop.time()
    await asyncio.sleep(0.05)
    assert loop.time() - begun >= 0.05
    assert time.monotonic() - began >= 0.049


async def test_advance_ends_a_long_sleep() -> None:
    sleeping = asyncio.create_task(asyncio.sleep(3600))
    await asyncio.sleep(0)
    advance(3600)
    await sleeping


async def test_event_of_another_thread_wakes_an_idle_loop() -> None:
    assert await asyncio.to_thread(lambda: "done") == "done"
