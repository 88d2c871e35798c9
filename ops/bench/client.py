"""The benchmark's client in the Ray session: it hands spends to the router as the network edge does.

It also answers what cannot be seen from outside: card numbers for the wire's load, which process is which,
and what the database says of itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

import asyncpg

from actors.cluster.peers import RayPeers
from actors.cluster.session import join, leave
from actors.network.cards import cards_by_id
from actors.network.custody import CardCustody
from actors.network.database import Lane
from actors.router import Router
from actors.settings import Settings
from actors.vault import Vault
from engine.commands import Authorize
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS
from engine.replies import Reply
from ops.bench.installation import make_rival_database
from ops.bench.load import ClosedLoop
from ops.bench.pipe import serve

_DATABASE_SETTINGS = (
    "server_version",
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_sync_method",
    "wal_compression",
    "commit_delay",
    "shared_buffers",
    "max_wal_size",
)


class Client:
    """One installation, seen by one of its own."""

    def __init__(self, settings: Settings, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._settings = settings
        self._connection = connection
        self._peers = RayPeers(settings)
        self._router = Router(self._peers)
        self._router.start()
        self._loop: ClosedLoop | None = None

    async def cards(self, card_ids: list[str]) -> list[dict[str, str]]:
        """Numbers and expiries (YYMM) of cards, as a terminal would read them."""
        lane = Lane(self._settings.database_dsn, "stanchion-bench")
        custody = CardCustody(Vault.from_settings(self._settings))
        found = await cards_by_id(lane, custody).find_all(card_ids)
        lane.close()
        # Joining uses the characters behind the mask.
        return [
            {"card_id": card_id, "pan": "".join(plastic.pan), "expiry": "".join(plastic.expiry)}
            for card_id, plastic in zip(card_ids, found, strict=True)
            if plastic is not None
        ]

    async def pids(self, names: list[str]) -> dict[str, int]:
        """Process ids by the name that the metrics page shows."""
        return {name: await self._peers.ask(name, "ping") for name in names}

    async def database(self) -> dict[str, str]:
        """The server's version and the settings that decide what a commit costs."""
        rows = await self._connection.fetch(
            "SELECT name, current_setting(name) AS setting FROM pg_settings WHERE name = ANY ($1)",
            list(_DATABASE_SETTINGS),
        )
        found = {row["name"]: row["setting"] for row in rows}
        return {name: found[name] for name in _DATABASE_SETTINGS}

    async def wal_bytes(self) -> int:
        """All write-ahead log of the server so far, both databases'."""
        position = await self._connection.fetchval("SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")
        return int(position)

    async def make_rival_database(self) -> None:
        """See ``ops.bench.installation``."""
        await make_rival_database(self._settings)

    async def start(self, cards: list[str], sale: dict[str, Any], in_flight: int) -> None:
        """Begin a closed loop through the router."""
        self._loop = ClosedLoop(self._submit, cards, sale, in_flight)

    async def stop(self) -> dict[str, Any]:
        """End it; see ``ClosedLoop.stop``."""
        assert self._loop is not None, "started before"
        return await self._loop.stop()

    async def close(self) -> None:
        """Leave the session."""
        await self._router.stop()
        await self._connection.close(timeout=10)

    def _submit(self, command: Authorize) -> Awaitable[Reply]:
        return self._router.submit(
            command, timeout_ms=AUTHORIZATION_DEADLINE_MS, patience_ms=REST_DEADLINE_MS
        )


async def run(settings: Settings) -> None:
    """Join the session and serve the pipe until it ends."""
    join(settings)
    try:
        client = Client(settings, await asyncpg.connect(settings.database_dsn))
        names = ("cards", "pids", "database", "wal_bytes", "make_rival_database", "start", "stop")
        await serve({name: getattr(client, name) for name in names})
        await client.close()
    finally:
        await asyncio.to_thread(leave, settings)
