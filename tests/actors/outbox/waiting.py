"""Waiting for what happens by itself."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 60.0


async def eventually(condition: Callable[[], Any], seconds: float = SECONDS_MAX) -> Any:
    """The first true answer of ``condition``, which may be a coroutine function; fails the test when there is
    none in time."""
    deadline = time.monotonic() + seconds
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return answer
        assert time.monotonic() < deadline, "it never happened"
        await asyncio.sleep(0.01)
