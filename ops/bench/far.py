"""A separate PostgreSQL behind a proxy that delays every round trip.

    python -m ops.bench.far FOLDER MILLISECONDS

Each direction is delayed by half of MILLISECONDS. All systems of a comparison use it. The process ends when
its pipe closes."""

from __future__ import annotations

import asyncio
import selectors
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from ops.bench.pipe import serve
from ops.chaos.environment.proxy import Proxy
from ops.embedded.postgres import EmbeddedPostgres


async def _main(folder: Path, extra_ms: float) -> None:
    server = EmbeddedPostgres(folder / "far")
    address = urlsplit(server.start())
    try:
        async with Proxy(server.port) as proxy:
            proxy.delay_seconds = extra_ms / 1000 / 2

            async def open_() -> str:
                host = address.netloc.rpartition(":")[0]
                return urlunsplit(address._replace(netloc=f"{host}:{proxy.port}"))

            await serve({"open": open_})
    finally:
        server.stop()


if __name__ == "__main__":
    # select() has a resolution of microseconds, epoll of milliseconds; the delay is half a millisecond.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_main(Path(sys.argv[1]), float(sys.argv[2])))
