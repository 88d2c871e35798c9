"""The benchmark's client in the Ray session: it submits spends to the router as the network edge does.

It also reports data that is not visible from outside: card numbers for the wire load, and the database's
version and settings.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

import asyncpg

from actors.cluster.peers import RayPeers
from actors.cluster.ray_session import join, leave
from actors.network.card_secrets import CardSecrets
from actors.network.cards import cards_by_id
from actors.network.database import NetworkDbConnection
from actors.router import Router
from actors.settings import Settings
from actors.vault import Vault
from engine.commands import Command
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS
from engine.replies import Reply
from ops.bench.filling import FILLED, fill_cards
from ops.bench.history import make_history, read_balances
from ops.bench.installation import make_rival_database
from ops.bench.load import Loop, loop_of
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

_COUNTED: Final = ("execute", "collect")


class CountingPeers(RayPeers):
    """Counts the router's calls to hosts."""

    calls = 0

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        if method in _COUNTED:
            self.calls += 1
        return await super().call(role, method, payload)


class Client:
    """A client inside one installation."""

    def __init__(self, settings: Settings, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._settings = settings
        self._connection = connection
        self._peers = CountingPeers(settings)
        self._router = Router(self._peers)
        self._router.start()
        self._loop: Loop | None = None
        self._calls = 0

    async def cards(self, card_ids: list[str]) -> list[dict[str, str]]:
        """Numbers and expiries (YYMM) of cards, as a terminal would read them."""
        connection = NetworkDbConnection(self._settings.database_dsn, "stanchion-bench")
        card_secrets = CardSecrets(Vault.from_settings(self._settings))
        found = await cards_by_id(connection, card_secrets).find_all(card_ids)
        connection.close()
        # Joining uses the characters behind the mask.
        return [
            {"card_id": card_id, "pan": "".join(credentials.pan), "expiry": "".join(credentials.expiry)}
            for card_id, credentials in zip(card_ids, found, strict=True)
            if credentials is not None
        ]

    async def database(self) -> dict[str, str]:
        """The server's version and the settings that determine the cost of a commit."""
        rows = await self._connection.fetch(
            "SELECT name, current_setting(name) AS setting FROM pg_settings WHERE name = ANY ($1)",
            list(_DATABASE_SETTINGS),
        )
        found = {row["name"]: row["setting"] for row in rows}
        return {name: found[name] for name in _DATABASE_SETTINGS}

    async def make_rival_database(self, kind: str) -> str:
        """See ``ops.bench.installation``."""
        return await make_rival_database(self._settings, kind)

    async def start(self, cards: list[str], sale: dict[str, Any], **load: Any) -> None:
        """Start a loop of spends through the router; ``load`` are the arguments of
        ``ops.bench.load.loop_of``."""
        self._calls = self._peers.calls
        self._loop = loop_of(self._submit, cards, sale, **load)

    async def stop(self) -> dict[str, Any]:
        """Stop the loop; see ``Loop.stop``. ``calls``: the router's calls to hosts."""
        assert self._loop is not None, "started before"
        outcome = await self._loop.stop()
        return outcome | {"calls": self._peers.calls - self._calls, "round_trips": 0}

    async def make_history(self, cards: list[str], sale: dict[str, Any], sales: int) -> int:
        """See ``ops.bench.history``."""
        return await make_history(self._submit, cards, sale, sales)

    async def read_balances(self, cards: list[str]) -> int:
        """See ``ops.bench.history``; the cards are of one tenant."""
        tenant_id = await self._connection.fetchval(
            "SELECT tenant_id::text FROM cards WHERE id = $1", cards[0]
        )
        return await read_balances(self._submit, cards, tenant_id)

    async def fill_cards(self, like: str, count: int, funds_minor: int) -> list[str]:
        """See ``ops.bench.filling``."""
        return await fill_cards(self._settings.database_dsn, like, count, funds_minor)

    async def vacuum(self, table: str) -> None:
        """Vacuum and analyse ``table`` now instead of later, while decisions are measured."""
        assert table in FILLED, table
        await self._connection.execute(f"VACUUM (ANALYZE) {table}")
        await self._connection.execute("CHECKPOINT")

    async def close(self) -> None:
        """Leave the session."""
        await self._router.stop()
        await self._connection.close(timeout=10)

    def _submit(self, command: Command) -> Awaitable[Reply]:
        return self._router.submit(
            command, timeout_ms=AUTHORIZATION_DEADLINE_MS, reply_timeout_ms=REST_DEADLINE_MS
        )


async def run(settings: Settings) -> None:
    """Join the session and serve the pipe until it ends."""
    join(settings)
    try:
        client = Client(settings, await asyncpg.connect(settings.database_dsn))
        names = (
            "cards", "database", "make_rival_database",
            "start", "stop", "make_history", "read_balances", "fill_cards", "vacuum",
        )  # fmt: skip
        await serve({name: getattr(client, name) for name in names})
        await client.close()
    finally:
        await asyncio.to_thread(leave, settings)
