"""One process of a rival that keeps its state in a database: called in-process, or behind the same network
edge as Stanchion.

    python -m ops.bench.rival VAR KIND CONNECTIONS

``STANCHION_BENCH_REDIS_URL`` holds the address of Redis.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Protocol

import asyncpg
import uvloop

from actors.journal.argument_checks import use_plain_checks
from actors.network.card_secrets import CardSecrets
from actors.network.cards import cards_by_digest
from actors.network.database import NetworkDbConnection
from actors.network.edge import Edge
from actors.network.respondent import Respondent
from actors.settings import Settings
from actors.vault import Vault
from engine.commands import Command
from engine.replies import Reply
from ops.bench.installation import rival_dsn, settings_of
from ops.bench.load import Loop, loop_of
from ops.bench.pipe import serve
from ops.bench.procedure import ProcedureBatches
from ops.bench.row_locks import RowLocks
from ops.bench.script import Script

REDIS_URL: Final = "STANCHION_BENCH_REDIS_URL"
_HELD: Final = "SELECT coalesce(sum(held_minor), 0)::bigint FROM accounts"


class RivalDecider(Protocol):
    """The interface of a rival's decider."""

    @property
    def round_trips(self) -> int: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def submit(self, command: Command) -> Reply: ...


KINDS: Final[dict[str, Callable[[str, int], RivalDecider]]] = {
    "row_locks": RowLocks,
    "batches": ProcedureBatches,
    "redis": Script,
}


class RivalServer:
    """``open`` before anything else, ``close`` at the end."""

    def __init__(self, settings: Settings, kind: str, connections: int) -> None:
        use_plain_checks()
        dsn = rival_dsn(settings, kind)
        self._decider = KINDS[kind](os.environ[REDIS_URL] if kind == "redis" else dsn, connections)
        # Every rival looks card numbers up in PostgreSQL: their table is the same for all.
        numbers = settings.database_dsn if kind == "redis" else dsn
        self._dsn = None if kind == "redis" else dsn
        self._connection = NetworkDbConnection(numbers, "bench-rival")
        card_secrets = CardSecrets(Vault.from_settings(settings))
        self._edge = Edge(Respondent(self._submit, cards_by_digest(self._connection), card_secrets))
        self._loop: Loop | None = None
        self._round_trips = 0

    async def open(self) -> tuple[str, int]:
        """Connect to the database and listen; returns the ISO 8583 address."""
        await self._decider.start()
        return await self._edge.start("127.0.0.1", 0)

    async def start(self, cards: list[str], sale: dict[str, Any], **load: Any) -> None:
        """Start a loop of in-process calls; ``load`` are the arguments of ``ops.bench.load.loop_of``."""
        self._round_trips = self._decider.round_trips
        self._loop = loop_of(self._decider.submit, cards, sale, **load)

    async def stop(self) -> dict[str, Any]:
        """Stop the loop; see ``Loop.stop``."""
        assert self._loop is not None, "started before"
        outcome = await self._loop.stop()
        return outcome | {"round_trips": self._decider.round_trips - self._round_trips, "calls": 0}

    async def held_minor(self) -> int:
        """The sum of holds on this rival's cards, in minor units."""
        if isinstance(self._decider, Script):
            return await self._decider.held_minor()
        connection = await asyncpg.connect(self._dsn)
        try:
            return int(await connection.fetchval(_HELD))
        finally:
            await connection.close(timeout=10)

    async def log_bytes(self) -> int:
        """Bytes that Redis has written to its append-only file."""
        assert isinstance(self._decider, Script), "all systems share PostgreSQL's log"
        return await self._decider.log_bytes()

    async def _submit(self, command: Command, *, repeat: bool = False) -> Reply:  # noqa: ARG002 - rivals ignore repeats
        return await self._decider.submit(command)

    async def close(self) -> None:
        """Stop listening and disconnect."""
        await self._edge.stop()
        self._connection.close()
        await self._decider.stop()


async def _main(var_dir: Path, kind: str, connections: int) -> None:
    rival = RivalServer(settings_of(var_dir), kind, connections)
    names = ("open", "start", "stop", "held_minor", "log_bytes")
    await serve({name: getattr(rival, name) for name in names})
    await rival.close()


if __name__ == "__main__":
    uvloop.run(_main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
