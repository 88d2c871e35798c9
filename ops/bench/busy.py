"""Unrelated CPU load: it uses processor time at low priority and no other resource.

    python -m ops.bench.busy

It is a control: the slowdown of decisions beside it is the cost of sharing the processors. A larger slowdown
beside Stanchion's own background work of the same size would show a lock or a queue between them.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from actors.boot import DELIVERY_NICENESS
from actors.niceness import apply_niceness, take_own_share
from ops.bench.pipe import serve

BURST_SECONDS: Final = 0.004
"""About one scheduler time slice."""


class Busy:
    """A busy loop that uses at most one processor."""

    def __init__(self) -> None:
        self._working: asyncio.Task[None] | None = None

    async def start(self, share: float) -> None:
        """Start to use this share of one processor, between 0 and 1."""
        pause = BURST_SECONDS * (1 / share - 1)
        self._working = asyncio.create_task(_work(pause))

    async def stop(self) -> None:
        """End it. Safe to call twice."""
        working, self._working = self._working, None
        if working is not None:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)


_rest = asyncio.sleep


async def _work(pause: float) -> None:
    while True:
        # CPU time, not wall time: a process that had to wait catches up later.
        until = time.process_time() + BURST_SECONDS
        while time.process_time() < until:
            pass
        await _rest(pause)


async def _main() -> None:
    take_own_share()
    apply_niceness(DELIVERY_NICENESS)
    busy = Busy()
    await serve({"start": busy.start, "stop": busy.stop})


if __name__ == "__main__":
    asyncio.run(_main())
