"""Periodic background work: sweeps, measurements, retention."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog

from actors.essential import start_essential

Step = Callable[[], Awaitable[float | None]]

_log = structlog.get_logger(__name__)


class PeriodicTask:
    """Runs ``step`` every ``seconds``; a step may return the seconds until the next one instead.

    An exception of a type in ``tolerated`` costs one step and is logged. Any other exception ends the process
    (``actors.essential``). The first step runs after ``delay`` seconds.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        seconds: float,
        *,
        delay: float = 0.0,
        tolerated: tuple[type[Exception], ...] = (),
    ) -> None:
        self._name = name
        self._step = step
        self._seconds = seconds
        self._delay = delay
        self._tolerated = tolerated
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start in the running loop. Safe to call twice."""
        self._task = self._task or start_essential(self._run(), self._name)

    async def stop(self) -> None:
        """Cancel the task, in the middle of a step if necessary, and wait for its end. Safe to call twice."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        seconds = self._delay
        # A client library can swallow the cancellation of a step, so the loop checks for a stop itself.
        while asyncio.current_task() is self._task:
            await asyncio.sleep(seconds)
            seconds = await self._seconds_after_step()

    async def _seconds_after_step(self) -> float:
        try:
            seconds = await self._step()
        except self._tolerated as failure:
            _log.warning("periodic_task_failed", task=self._name, error=type(failure).__name__)
            return self._seconds
        return self._seconds if seconds is None else seconds
