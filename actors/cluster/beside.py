"""Blocking calls of Ray beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from engine.limits import RAY_ANSWER_SECONDS

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *arguments: Any, seconds: float = RAY_ANSWER_SECONDS) -> T:
    """The result of a call in a daemon thread of its own. Raises TimeoutError after ``seconds``; the thread
    then goes on alone.

    Not ``asyncio.to_thread``: without its head, Ray blocks for a minute. A few such calls would fill the
    pool of threads, and the end of the event loop would wait for them.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, failure: BaseException | None) -> None:
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
        with suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(settle, value, failure)

    threading.Thread(target=run, name=f"beside-{work.__name__}", daemon=True).start()
    async with asyncio.timeout(seconds):
        return await result
