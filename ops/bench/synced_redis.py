"""The Redis server of a rival, in a process of its own.

    python -m ops.bench.synced_redis VAR

It is filled with the cards of the installation in ``VAR`` and ends when the pipe closes.
"""

from __future__ import annotations

import sys
from pathlib import Path

import uvloop

from ops.bench.installation import settings_of
from ops.bench.pipe import serve
from ops.bench.script import SyncedRedis, fill


async def _main(var_dir: Path) -> None:
    server = SyncedRedis(var_dir.with_name("rival"))
    url = server.start()

    async def open_() -> str:
        await fill(settings_of(var_dir).database_dsn, url)
        return url

    try:
        await serve({"open": open_})
    finally:
        server.stop()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1])))
