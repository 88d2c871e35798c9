"""Whether a failover can lose acknowledged decisions, on real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import asyncpg

from actors.journal.replication import data_loss
from actors.journal.sizes import read_sizes
from ops.chaos.environment.postgres_pair import PostgresPair

SECONDS = 120.0


async def test_single_server_has_no_failover(database_url: str) -> None:
    connection = await asyncpg.connect(database_url)
    assert await data_loss(connection, 1) is None
    assert await data_loss(connection, 2) == (
        "the address names 2 servers, but synchronous_standby_names is empty"
    )
    await connection.close()


async def test_primary_must_wait_for_every_standby(tmp_path: Path) -> None:
    async with PostgresPair(tmp_path) as pair:
        connection = await asyncpg.connect(pair.primary.url)

        async def reason_with(names: str) -> str | None:
            before = await connection.fetchval("SHOW synchronous_standby_names")
            await connection.execute(f"ALTER SYSTEM SET synchronous_standby_names = '{names}'")
            await connection.execute("SELECT pg_reload_conf()")
            state = "sync" if names == pair.standby.label else "async"

            async def applied() -> bool:
                shown = await connection.fetchval("SHOW synchronous_standby_names")
                found = await connection.fetchval("SELECT sync_state FROM pg_stat_replication")
                return bool(shown != before and found == state)

            async with asyncio.timeout(SECONDS):
                while not await applied():  # noqa: ASYNC110 - the server applies it
                    await asyncio.sleep(0.02)
            return await data_loss(connection, 1)

        assert await data_loss(connection, 2) is None
        assert await reason_with("") == (
            "the primary does not wait for its standbys (1): synchronous_standby_names is empty"
        )
        assert await reason_with("another") == "1 of 1 standbys are asynchronous"
        assert await reason_with(pair.standby.label) is None
        await connection.close()


async def test_metric_shows_the_risk_of_an_address_with_several_servers(database_url: str) -> None:
    assert (await read_sizes(database_url, SECONDS))["stanchion_data_loss_possible"] == 0
    user, _, rest = database_url.rpartition("@")
    host, _, name = rest.partition("/")
    twice = f"{user}@{host},{host}/{name}"
    assert (await read_sizes(twice, SECONDS))["stanchion_data_loss_possible"] == 1
