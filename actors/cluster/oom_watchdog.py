"""Out-of-memory watchdog: a process that gets no more memory ends itself.

Without memory a process answers pings but loses replies: a callback that could not run, or a task that has
ended, does not come back. Ended, it is replaced like any killed process: its shards move, Ray restarts it,
and networks and callers retry. The watchdog therefore allocates a little memory once a second, and ends the
process at once on a ``MemoryError`` that the code does not handle.

Where the kernel overcommits and kills later (the default of Linux), the watchdog detects nothing. The result
is the same: the kernel kills the process.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from typing import Any, Final

import structlog

OUT_OF_MEMORY_EXIT: Final = 71
"""Exit status of a process that got no more memory."""
CHECK_SECONDS: Final = 1.0
WANTED_BYTES: Final = 8 << 20
"""Must be available, or the next batch may fail. Released untouched."""
RESERVE_BYTES: Final = 4 << 20
"""Address space kept free for logging the reason."""

_log = structlog.get_logger(__name__)


class OomWatchdog:
    """Checks once a second as long as its loop runs.

    A timer and not a task: without memory, a task could end with an exit status that hides the reason.
    """

    def __init__(self) -> None:
        self._reserve = mmap.mmap(-1, RESERVE_BYTES)
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Start in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_error)
        self._check()

    def _check(self) -> None:
        try:
            mmap.mmap(-1, WANTED_BYTES).close()
        except (OSError, MemoryError):
            self._end_process()
        self._loop.call_later(CHECK_SECONDS, self._check)

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError):
            self._end_process()
        loop.default_exception_handler(context)

    def _end_process(self) -> None:
        try:
            self._reserve.close()
            _log.error("memory_exhausted")
        finally:
            os._exit(OUT_OF_MEMORY_EXIT)
