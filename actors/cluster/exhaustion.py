"""A process that gets no more memory ends itself.

Half able, it would answer pings and nothing else: a callback that could not run has lost somebody's reply, a
task that has ended stays so. Ended, it is like any that was killed: its shards move, Ray starts it again,
networks and callers ask again. So a little memory is asked for once a second, and whatever ran into a
``MemoryError`` that nobody deals with ends the process at once.

Where the kernel grants everything and kills later (Linux, unless told otherwise), this says nothing, and
nothing is lost by it: that is a kill as well.
"""

from __future__ import annotations

import asyncio
import mmap
import os
from typing import Any, Final

import structlog

EXHAUSTED_EXIT: Final = 71
"""Exit status of a process that got no more memory."""
LOOK_SECONDS: Final = 1.0
WANTED_BYTES: Final = 8 << 20
"""What must be there to be had, lest the next batch be the one that fails. It is given back untouched."""
RESERVE_BYTES: Final = 4 << 20
"""Address space that is kept for saying why."""

_log = structlog.get_logger(__name__)


class Exhaustion:
    """Looks for as long as its loop runs."""

    def __init__(self) -> None:
        self._reserve = mmap.mmap(-1, RESERVE_BYTES)
        self._loop: asyncio.AbstractEventLoop

    def start(self) -> None:
        """Begin, in the running loop."""
        self._loop = asyncio.get_running_loop()
        self._loop.set_exception_handler(self._on_error)
        self._look()

    def _look(self) -> None:
        try:
            mmap.mmap(-1, WANTED_BYTES).close()
        except (OSError, MemoryError):
            self._end()
        self._loop.call_later(LOOK_SECONDS, self._look)

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if isinstance(context.get("exception"), MemoryError):
            self._end()
        loop.default_exception_handler(context)

    def _end(self) -> None:
        try:
            self._reserve.close()
            _log.error("memory_exhausted")
        finally:
            os._exit(EXHAUSTED_EXIT)
