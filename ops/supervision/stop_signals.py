"""SIGINT and SIGTERM: they ask the supervisor to stop."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Final, TypeVar

STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

T = TypeVar("T")


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM unwind the stack like SIGINT, so that the clean-up of every step runs."""
    previous = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def ignore_stop_signals() -> None:
    """Ignore both until ``terminable`` ends."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def set_on_stop_signals(stop: asyncio.Event) -> None:
    """Set ``stop`` on each of them, instead of unwinding the stack. Call it in the running event loop."""
    loop = asyncio.get_running_loop()
    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, stop.set)


async def unless_stopped(stop: asyncio.Event, work: Awaitable[T]) -> T | None:
    """The result of ``work``, or None if ``stop`` is set first; ``work`` is then cancelled and has ended."""
    working, stopping = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, stopping):
            task.cancel()
        await asyncio.wait((working, stopping))
