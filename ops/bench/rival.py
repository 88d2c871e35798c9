"""One process of the rival: row-locking decisions, called in-process or behind the very same network edge.

python -m ops.bench.rival VAR CONNECTIONS
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import uvloop

from actors.network.cards import cards_by_digest
from actors.network.custody import CardCustody
from actors.network.database import Lane
from actors.network.edge import Edge
from actors.network.respondent import Respondent
from actors.settings import Settings
from actors.vault import Vault
from ops.bench.installation import rival_dsn, settings_of
from ops.bench.load import ClosedLoop
from ops.bench.pipe import serve
from ops.bench.row_locks import RowLocks


class Rival:
    """``open`` before anything else, ``close`` at the end."""

    def __init__(self, settings: Settings, connections: int) -> None:
        self._decider = RowLocks(rival_dsn(settings), connections)
        self._lane = Lane(rival_dsn(settings), "bench-rival")
        custody = CardCustody(Vault.from_settings(settings))
        self._edge = Edge(Respondent(self._decider.submit, cards_by_digest(self._lane), custody))
        self._loop: ClosedLoop | None = None

    async def open(self) -> tuple[str, int]:
        """Connect to the database and listen; returns the ISO 8583 address."""
        await self._decider.start()
        return await self._edge.start("127.0.0.1", 0)

    async def start(self, cards: list[str], sale: dict[str, Any], in_flight: int) -> None:
        """Begin a closed loop of in-process calls."""
        self._loop = ClosedLoop(self._decider.submit, cards, sale, in_flight)

    async def stop(self) -> dict[str, Any]:
        """End it; see ``ClosedLoop.stop``."""
        assert self._loop is not None, "started before"
        return await self._loop.stop()

    async def close(self) -> None:
        """Stop listening and disconnect."""
        await self._edge.stop()
        self._lane.close()
        await self._decider.stop()


async def _main(var_dir: Path, connections: int) -> None:
    rival = Rival(settings_of(var_dir), connections)
    await serve({name: getattr(rival, name) for name in ("open", "start", "stop")})
    await rival.close()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1]), int(sys.argv[2])))
