"""An HTTPS server for the demo, which itself runs synchronously in one thread."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Final

from ops.embedded.local_https import Handler, local_receiver

_START_SECONDS_MAX: Final = 10.0


@contextmanager
def answering(var_dir: Path, handler: Handler) -> Iterator[str]:
    """Serve ``handler`` in a thread of its own, under the authority of ``var_dir``; yields its address."""
    started: Future[tuple[str, asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def serve() -> None:
        try:
            async with local_receiver(var_dir, handler) as url:
                stop = asyncio.Event()
                started.set_result((url, asyncio.get_running_loop(), stop))
                await stop.wait()
        except Exception as failure:
            if started.done():
                raise
            started.set_exception(failure)

    thread = Thread(target=asyncio.run, args=(serve(),), name="https", daemon=True)
    thread.start()
    url, loop, stop = started.result(_START_SECONDS_MAX)
    try:
        yield url
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
