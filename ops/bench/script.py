"""The rival inside Redis: one Lua script for each decision, on a server that syncs its file before it
answers.

The server runs with ``appendfsync always``, so a crash loses no answered command. Commands of one turn of the
event loop are pipelined together, as in good Redis clients, so one sync of the file serves many of them.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import asyncpg
import msgspec
from redis.asyncio import Redis

from actors.batcher import Batcher
from engine.commands import Authorize, Command
from engine.decision import risk
from engine.ids import Derived, approval_code, derive
from engine.programmes.programme import ProgrammeConfig, hold_expiry_days
from engine.replies import NotExecuted, Reply, WireAnswer
from ops.embedded.redis import EmbeddedRedis

SOURCE: Final = Path(__file__).with_suffix(".lua").read_text()
BATCH_MAX: Final = 256
_CARDS: Final = """
    SELECT c.id::text, c.state, c.exp_year, c.exp_month, c.cardholder_active, c.network, c.currency,
           c.controls, u.seq, u.day, u.day_count, u.day_amount_minor, u.cvv2_failures, a.posted_minor,
           a.held_minor, a.version,
           c.tenant_id::text, c.live, c.cardholder_id::text, c.account_id::text, c.programme_id::text
    FROM cards c JOIN card_usage u ON u.card_id = c.id JOIN accounts a ON a.id = c.account_id
"""
_LOADED_AT_ONCE: Final = 500

_config = msgspec.json.Decoder(ProgrammeConfig).decode
_encode = msgspec.json.Encoder().encode


class SyncedRedis(EmbeddedRedis):
    """A server that answers after its file is synced. File rewriting is off, because it would affect some
    slices and not others."""

    name = "rival-redis"

    def _configuration(self) -> str:
        plain = super()._configuration().replace("appendfsync everysec", "appendfsync always")
        return plain + "auto-aof-rewrite-percentage 0\n"


async def fill(dsn: str, url: str) -> None:
    """Copy the cards and programmes of a database to Redis."""
    source = await asyncpg.connect(dsn)
    client = Redis.from_url(url)
    try:
        for row in await source.fetch("SELECT config FROM programmes"):
            config = _config(row["config"])
            facts: dict[Any, Any] = {
                "version": config.version,
                "status": config.status,
                "hold_days": config.hold_expiry_days,
            }
            await client.hset(f"programme:{config.id}", mapping=facts)
        async for rows in _in_parts(source):
            pipeline = client.pipeline(transaction=False)
            for row in rows:
                pipeline.hset(f"card:{row['id']}", mapping=_card(row))
            await pipeline.execute()
    finally:
        await client.aclose()
        await source.close(timeout=10)


async def _in_parts(source: asyncpg.Connection[Any]) -> AsyncIterator[list[asyncpg.Record]]:
    rows = await source.fetch(_CARDS)
    for begin in range(0, len(rows), _LOADED_AT_ONCE):
        yield rows[begin : begin + _LOADED_AT_ONCE]


def _card(row: asyncpg.Record) -> dict[Any, Any]:
    texts = {True: "true", False: "false"}
    return {
        name: texts.get(value, value) if isinstance(value, bool) else value for name, value in row.items()
    }


class Script:
    """Decides spends on cards that ``fill`` has copied. ``start`` and ``stop`` it once each."""

    def __init__(self, url: str, connections: int) -> None:
        """``connections``: number of concurrent pipelines."""
        self._url = url
        self._count = connections
        self._connections: list[_PipelineConnection] = []
        self._programmes: dict[str, bytes] = {}

    @property
    def round_trips(self) -> int:
        """Round trips to the server since the start."""
        return sum(each.round_trips for each in self._connections)

    async def start(self) -> None:
        """Connect, and load the script."""
        self._connections = [_PipelineConnection(self._url) for _ in range(self._count)]
        for each in self._connections:
            await each.start()
        client = self._connections[0].client
        cards = [key async for key in client.scan_iter(match="card:*", count=1000)]
        pipeline = client.pipeline(transaction=False)
        for key in cards:
            pipeline.hget(key, "programme_id")
        # A card never changes its programme.
        for key, programme_id in zip(cards, await pipeline.execute(), strict=True):
            self._programmes[key.decode().partition(":")[2]] = b"programme:" + programme_id

    async def stop(self) -> None:
        """Disconnect; no pipeline may be open."""
        for each in self._connections:
            await each.client.aclose()

    async def submit(self, command: Command) -> Reply:
        """Decide one spend; its reply is durable."""
        assert isinstance(command, Authorize), "the rival knows spends only"
        programme = self._programmes.get(command.card_id)
        if programme is None:
            return NotExecuted("not_owner")
        connection = min(self._connections, key=lambda each: each.open_requests)
        found = await connection.decide(command, programme)
        code, approved_minor = found[0].decode(), int(found[1])
        approval = approval_code(command.id) if approved_minor else None
        return WireAnswer(code, command.id, approval, approved_minor)

    async def held_minor(self) -> int:
        """The sum of holds on all cards, in minor units."""
        pipeline = self._connections[0].client.pipeline(transaction=False)
        for card_id in self._programmes:
            pipeline.hget(f"card:{card_id}", "held_minor")
        return sum(map(int, await pipeline.execute()))

    async def log_bytes(self) -> int:
        """Bytes that the server has written to its file."""
        about = await self._connections[0].client.info("persistence")
        return int(about["aof_current_size"])


class _PipelineConnection:
    """One connection, with one pipeline at a time."""

    def __init__(self, url: str) -> None:
        self.client = Redis.from_url(url)
        self._batcher = Batcher(self._flush, BATCH_MAX)
        self._found: dict[bytes, Any] = {}
        self._digest = ""
        self.open_requests = 0
        self.round_trips = 0

    async def start(self) -> None:
        self._digest = await self.client.script_load(SOURCE)

    async def decide(self, command: Authorize, programme: bytes) -> Any:
        self.open_requests += 1
        try:
            await self._batcher.add(((command, programme),))
        finally:
            self.open_requests -= 1
        found = self._found.pop(command.command_key)
        if isinstance(found, Exception):
            raise found
        return found

    async def _flush(self, asked: list[tuple[Authorize, bytes]]) -> None:
        self.round_trips += 1
        now_ms = time.time_ns() // 1_000_000
        pipeline = self.client.pipeline(transaction=False)
        for command, programme in asked:
            pipeline.evalsha(self._digest, 2, *_arguments(command, programme, now_ms))
        found = await pipeline.execute(raise_on_error=False)
        for (command, _), each in zip(asked, found, strict=True):
            self._found[command.command_key] = each


def _arguments(command: Authorize, programme: bytes, now_ms: int) -> tuple[Any, ...]:
    assert command.kind == "purchase", "the rival knows purchases only"
    return (
        f"card:{command.card_id}",
        programme,
        command.id,
        command.card_id,
        command.command_key.hex(),
        _encode(command),
        command.amount_minor,
        command.currency,
        command.mcc,
        command.merchant_country,
        command.channel,
        risk.score(command, 0),
        hold_expiry_days(0, command.mcc),
        approval_code(command.id),
        command.wire.network_txn_id or "",
        *(derive(command.id, kind) for kind in (Derived.HOLD, Derived.EVENT_FIRST, Derived.EVENT_SECOND)),
        now_ms,
    )
