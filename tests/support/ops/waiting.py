"""Waits for a condition of the real world: polling with a deadline, no fixed sleep."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

SECONDS_MAX = 60.0


async def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as ``condition`` holds; fail the test after a deadline."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        await asyncio.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether process ``pid`` has ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
