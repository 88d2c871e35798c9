"""Blocking calls of Ray outside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from engine.limits import RAY_ANSWER_SECONDS

T = TypeVar("T")

IDLE_POLL_SECONDS: Final = 0.01
_running: set[threading.Thread] = set()
"""The threads of this process that are inside Ray, whose client exists once for each process."""


async def in_daemon_thread(
    work: Callable[..., T], *arguments: Any, seconds: float | None = RAY_ANSWER_SECONDS
) -> T:
    """Call ``work`` in a new daemon thread and return its result. Raises TimeoutError after ``seconds``, if
    there are any; the thread then runs on, and its result is dropped.

    ``asyncio.to_thread`` is not used: while its head is away, Ray blocks for a minute. A few blocked calls
    would fill the thread pool, and the event loop would wait for them when it closes.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def deliver(value: T | None, failure: BaseException | None) -> None:
        if result.done():
            return
        if failure is None:
            result.set_result(value)  # type: ignore[arg-type]
        else:
            result.set_exception(failure)

    def run() -> None:
        value, failure = None, None
        try:
            value = work(*arguments)
        except Exception as raised:  # noqa: BLE001 - raised again where the result is awaited
            failure = raised
        finally:
            _running.discard(thread)
        with suppress(RuntimeError):  # the loop was closed in the meantime
            loop.call_soon_threadsafe(deliver, value, failure)

    thread = threading.Thread(target=run, name=f"daemon-{work.__name__}", daemon=True)
    _running.add(thread)
    thread.start()
    async with asyncio.timeout(seconds):
        return await result


async def wait_idle(seconds: float) -> None:
    """Wait until no such call runs, or ``seconds`` have passed: a call to a dead head can take a minute."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while True:
                if not _running:
                    return
                await asyncio.sleep(IDLE_POLL_SECONDS)
