"""A step that is taken again and again in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from actors.essential import start_essential
from actors.journal.contract import UnknownOutcomeError


class Repeating:
    """Takes ``step``, which returns the seconds until it is due again. A journal that is away costs a step,
    no more. ``stop`` twice is harmless."""

    def __init__(self, step: Callable[[], Awaitable[float]], pause_seconds: float) -> None:
        self._step = step
        self._pause_seconds = pause_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, in the running loop, after one pause."""
        self._task = start_essential(self._run(), "repeating")

    async def stop(self) -> None:
        """Stop, in the middle of a step if need be."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def _run(self) -> None:
        pause = self._pause_seconds
        while True:
            await asyncio.sleep(pause)
            pause = self._pause_seconds
            with suppress(UnknownOutcomeError):
                pause = await self._step()
