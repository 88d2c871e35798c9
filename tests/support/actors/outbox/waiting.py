"""Waiting for a condition."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

SECONDS_MAX = 60.0


async def eventually(condition: Callable[[], Any], seconds: float = SECONDS_MAX) -> Any:
    """Poll ``condition``, which may be a coroutine function, and return its first true result. Fails the test
    after ``seconds``."""
    deadline = time.monotonic() + seconds
    while True:
        result = condition()
        if inspect.isawaitable(result):
            result = await result
        if result:
            return result
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        await asyncio.sleep(0.01)
