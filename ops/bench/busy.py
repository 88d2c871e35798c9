"""A stranger on the machine: it uses processor time that others leave over, and nothing else.

    python -m ops.bench.busy

What decisions lose beside it is what two programs on one machine take from each other. What they lose beside
work of ours of the same size, and not beside it, is our doing.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from actors.boot import DELIVERY_NICENESS
from actors.cluster.precedence import give_way
from ops.bench.pipe import serve

BURST_SECONDS: Final = 0.004
"""As long as the kernel lets a process run while others wait."""


class Busy:
    """One processor's worth of work at most."""

    def __init__(self) -> None:
        self._working: asyncio.Task[None] | None = None

    async def start(self, share: float) -> None:
        """Begin to use this share of one processor, above 0 and below 1."""
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
        # Processor time, not time: whoever must wait works as much later.
        until = time.process_time() + BURST_SECONDS
        while time.process_time() < until:
            pass
        await _rest(pause)


async def _main() -> None:
    give_way(DELIVERY_NICENESS)
    busy = Busy()
    await serve({"start": busy.start, "stop": busy.stop})


if __name__ == "__main__":
    asyncio.run(_main())
