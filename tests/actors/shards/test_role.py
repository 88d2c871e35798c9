"""The role of a shard host: it decides only while it trusts the database's clock, and reports when it does
not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.roles import Context
from actors.settings import Settings
from actors.shards.role import HostRole
from actors.submission import CommandBatch, Submission, decode_replies, encode_batch
from actors.vault import Vault
from engine.commands import Command
from engine.replies import NotExecuted, Reply
from tests.support.api.stack import LoopPeers
from tests.support.engine.build import SHARD, TENANT, create_programme

DAY_MS = 86_400_000


@pytest.fixture
async def role(settings: Settings, vault: Vault) -> AsyncIterator[HostRole]:
    """A host that owns one shard."""
    connection = await asyncpg.connect(settings.database_dsn)
    await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, 'acme')", TENANT)
    await connection.close()
    peers = LoopPeers()
    made = HostRole(Context(settings, "host-1", peers))
    await made.start()
    await made.call("take", msgspec.msgpack.encode({SHARD: 0}))
    peers.roles["host-1"] = made
    yield made
    await made.stop()


async def execute(role: HostRole, command: Command) -> Reply:
    batch = CommandBatch("router", [Submission(command, 5_000)])
    (reply,) = decode_replies(await role.call("execute", encode_batch(batch)))
    return reply


def read_clock(role: HostRole, monkeypatch: pytest.MonkeyPatch, offset_ms: int) -> Any:
    """Make the role read a database clock that is wrong by ``offset_ms``."""
    journal = role._journal
    right = type(journal).now_ms

    async def wrong() -> int:
        return await right(journal) + offset_ms

    monkeypatch.setattr(journal, "now_ms", wrong)
    return role._clock_reader.step()


async def test_host_decides_nothing_while_the_clock_of_the_database_is_wrong(
    role: HostRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_ms = role._clock.now_ms()
    await read_clock(role, monkeypatch, 400 * DAY_MS)
    assert await execute(role, create_programme(1)) == NotExecuted("overloaded")
    assert role.figures()["stanchion_clock_refused"] == 1
    assert role.figures()["stanchion_refusals"] == {("clock",): 1}
    assert role._clock.now_ms() - before_ms < DAY_MS
    await read_clock(role, monkeypatch, 0)
    assert role.figures()["stanchion_clock_refused"] == 0
    assert await execute(role, create_programme(1)) != NotExecuted("overloaded")


async def test_take_accepts_shards_with_and_without_epochs(role: HostRole) -> None:
    """A coordinator of the release before sends a list of shards only."""
    assert await role.call("take", msgspec.msgpack.encode([1, 2])) == b"taken"
    assert await role.call("take", msgspec.msgpack.encode({3: 0})) == b"taken"
    assert await role.call("take", msgspec.msgpack.encode({1: 0, 4: 0})) == b"unavailable"
    await asyncio.sleep(0)
    assert set(role.host.epochs) == {SHARD, 1, 2, 3}
