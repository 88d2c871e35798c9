"""A PostgreSQL of the benchmark's own behind a line that is slower than a loopback.

    python -m ops.bench.far FOLDER MILLISECONDS

Every round trip takes so much longer, half of it each way; whoever measures does it on both sides of a
comparison. The process ends with its pipe.
"""

from __future__ import annotations

import asyncio
import selectors
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from ops.bench.pipe import serve
from ops.chaos.proxy import Proxy
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
    # select() takes microseconds where epoll takes milliseconds: half a millisecond is half a millisecond.
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())) as runner:
        runner.run(_main(Path(sys.argv[1]), float(sys.argv[2])))
