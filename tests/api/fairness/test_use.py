"""The use of a request contains its steps in the event loop, and not its waits."""

from __future__ import annotations

import asyncio
import time

import pytest

from api.fairness.use import Measured, Use


def busy(seconds: float) -> None:
    """Use the processor."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


async def test_steps_count_and_waits_do_not() -> None:
    use = Use()

    async def work() -> str:
        busy(0.01)
        await asyncio.sleep(0.05)
        await asyncio.gather(asyncio.sleep(0.01), other())
        busy(0.01)
        return "done"

    async def other() -> None:
        busy(0.2)

    assert await Measured(work(), use) == "done"
    assert 0.02 <= use.seconds < 0.2


async def test_errors_pass_and_their_steps_count() -> None:
    use = Use()

    async def work() -> None:
        try:
            await failing()
        finally:
            busy(0.01)

    async def failing() -> None:
        await asyncio.sleep(0)
        raise LookupError

    with pytest.raises(LookupError):
        await Measured(work(), use)
    assert use.seconds >= 0.01


async def test_cancellation_reaches_the_work() -> None:
    use, cancelled = Use(), []

    async def work() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def request() -> None:
        await Measured(work(), use)

    task = asyncio.create_task(request())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled


async def test_a_wait_that_times_out_continues_in_the_work() -> None:
    async def work() -> str:
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(60)
        except TimeoutError:
            return "late"
        return "in time"

    assert await Measured(work(), Use()) == "late"
