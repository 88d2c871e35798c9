"""The end of a measurement that is stopped: all child processes stop, too, and one line says so."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


@contextmanager
def stoppable(name: str) -> Iterator[None]:
    """Ends the process with one line of the command ``name`` when Ctrl-C or SIGTERM has stopped the work
    inside. SIGTERM does so only within ``run_until_stopped``, and so does Ctrl-C where a shell has started
    the process to ignore it."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise SystemExit(f"{name}: interrupted; everything it had started is stopped") from None


def run_until_stopped(
    measuring: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """The result of ``measuring``. SIGTERM and Ctrl-C cancel it, so it can stop what it has started. Raises
    CancelledError then."""

    async def cancelled_by_signals() -> T:
        task = asyncio.current_task()
        assert task is not None, "called as a task"
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        return await measuring

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(cancelled_by_signals())
