"""Connections go to the primary, and leave a server that a failover has replaced."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest

from actors.database import DatabaseUnavailableError, DbConnection
from actors.primary import (
    CannotConnectError,
    NoAnswerError,
    PrimaryConnection,
    PrimaryWatch,
    accepts_writes,
    connect,
)
from ops.chaos.environment.postgres_pair import PostgresPair
from tests.conftest import PostgresServer
from tests.support.actors.journal.proxy import Proxy

SECONDS = 120.0


def of_both(first: str, second: str) -> str:
    """One address that names the servers of both."""
    one, two = urlsplit(first), urlsplit(second)
    return urlunsplit(one._replace(netloc=f"{one.netloc},{two.hostname}:{two.port}"))


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[PostgresPair]:
    async with PostgresPair(tmp_path) as pair:
        yield pair


async def port_of(connection: PrimaryConnection) -> int:
    return int(await connection.fetchval("SELECT inet_server_port()"))


async def closed(connection: PrimaryConnection) -> None:
    async with asyncio.timeout(SECONDS):
        while not connection.is_closed():  # noqa: ASYNC110 - a connection has no signal
            await asyncio.sleep(0.02)


async def connected(dsn: str) -> PrimaryConnection:
    return await connect(dsn, "test", SECONDS, {})


async def test_frozen_server_does_not_delay_the_others(database_url: str) -> None:
    async with Proxy(database_url) as frozen:
        frozen.drops_answers = True
        connection = await connected(of_both(frozen.address, database_url))
        assert await connection.fetchval("SELECT 1") == 1
        await connection.close()
        with pytest.raises(NoAnswerError, match="does not answer"):
            await connect(frozen.address, "test", 0.2, {})


async def test_refusal_has_a_reason_for_each_server(database_url: str) -> None:
    name = urlsplit(database_url).path[1:]
    session = await asyncpg.connect(database_url)
    await session.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await session.close()
    address = of_both(database_url, "postgresql://127.0.0.1:1/d")
    with pytest.raises(CannotConnectError) as failure:
        await connected(address)
    port = urlsplit(database_url).port
    assert str(failure.value) == (
        "no server accepts connections and writes: "
        f"127.0.0.1:{port} is read-only, 127.0.0.1:1 accepts no connections"
    )
    assert not failure.value.permanent


async def test_watch_drops_idle_connections_to_a_server_that_is_read_only(database_url: str) -> None:
    idle = await connected(database_url)
    watch = PrimaryWatch(database_url, 0.02)
    watch.start()
    name = urlsplit(database_url).path[1:]
    session = await asyncpg.connect(database_url)
    await session.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    await session.close()
    await closed(idle)
    await watch.stop()


async def test_one_wrong_host_does_not_matter(database_url: str) -> None:
    connection = await connected(of_both(database_url, "postgresql://no.such.host.invalid:1/d"))
    await connection.close()


@pytest.mark.parametrize(
    ("part", "message"),
    [("password", "refuses the user or the password"), ("name", "has no such database")],
)
async def test_wrong_address_is_permanent(database_url: str, part: str, message: str) -> None:
    parts = urlsplit(database_url)
    changed = {
        "password": parts._replace(netloc=f"{parts.username}:hidden-word@127.0.0.1:{parts.port}"),
        "name": parts._replace(path="/no_such_database"),
    }[part]
    with pytest.raises(CannotConnectError, match=message) as failure:
        await connected(urlunsplit(changed))
    assert failure.value.permanent
    assert "hidden-word" not in str(failure.value)


async def test_servers_of_different_clusters_are_refused(
    pair: PostgresPair, postgres_server: PostgresServer
) -> None:
    other = urlsplit(postgres_server.admin_url)
    one = urlsplit(pair.primary.url)
    both = f"postgresql://{one.netloc},127.0.0.1:{other.port}{one.path}"
    if other.username != one.username:
        pytest.fail("the servers of the tests have the same superuser")
    connection = await asyncpg.connect(pair.primary.url)
    await connection.execute(f"ALTER ROLE {other.username} PASSWORD '{other.password}'")
    await connection.close()
    changed = both.replace(f":{one.password}@", f":{other.password}@")

    async def connect_until_refused() -> None:
        # A server that does not answer in time is not compared.
        while True:
            (await connected(changed)).terminate()

    with pytest.raises(CannotConnectError, match="belong to different clusters"):
        await asyncio.wait_for(connect_until_refused(), 60)


async def test_connections_move_to_the_promoted_server_and_leave_the_former_primary(
    pair: PostgresPair,
) -> None:
    former, port = pair.primary.clients.port, pair.primary.port
    used, idle = await connected(pair.dsn), await connected(pair.dsn)
    assert [await port_of(used), await port_of(idle)] == [port, port]
    await pair.freeze()
    await pair.promote()
    promoted = await connected(pair.dsn)
    assert await port_of(promoted) == pair.primary.port
    assert promoted.timeline > used.timeline
    await pair.return_former()
    assert await used.fetchval("SELECT NOT pg_is_in_recovery()"), "it believes that it is the primary"
    assert not accepts_writes(used)
    again = await connected(pair.dsn)
    assert await port_of(again) == pair.primary.port
    only_former = urlunsplit(urlsplit(pair.dsn)._replace(netloc=f"{userinfo(pair.dsn)}@127.0.0.1:{former}"))
    with pytest.raises(CannotConnectError, match="is a former primary"):
        await connected(only_former)
    watch = PrimaryWatch(pair.dsn, 0.02)
    watch.start()
    await closed(idle)
    await closed(used)
    await watch.stop()
    for each in (promoted, again):
        assert accepts_writes(each)
        each.terminate()


def userinfo(dsn: str) -> str:
    return urlsplit(dsn).netloc.rpartition("@")[0]


async def test_watch_finds_a_promotion_of_which_the_process_knows_nothing(pair: PostgresPair) -> None:
    idle = await connected(pair.dsn)
    await pair.cut_off()
    await pair.promote()
    await pair.return_former()
    assert accepts_writes(idle)
    watch = PrimaryWatch(pair.dsn, 0.02)
    watch.start()
    await closed(idle)
    await watch.stop()


async def test_commit_that_waits_for_its_standby_is_not_visible_after_its_caller_timed_out(
    pair: PostgresPair,
) -> None:
    """A cancelled wait would show the commit without a copy on the standby."""
    reader = await connected(pair.dsn)
    await reader.execute("CREATE TABLE numbers (number int)")
    statements = {"insert": "INSERT INTO numbers VALUES (1)"}
    pair.primary.replication.hold()
    writer = DbConnection(pair.dsn, "test", statements, timeout_ms=1_000)
    with pytest.raises(DatabaseUnavailableError):
        await writer.fetch("insert")
    with pytest.raises(DatabaseUnavailableError):
        await writer.transact("both", lambda run: run("insert"))
    assert await reader.fetchval("SELECT count(*) FROM numbers") == 0
    waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    assert await reader.fetchval(waiting) > 0
    pair.primary.replication.release()
    async with asyncio.timeout(SECONDS):
        while await reader.fetchval(waiting):  # noqa: ASYNC110 - the server has no signal
            await asyncio.sleep(0.02)
    assert await reader.fetchval("SELECT count(*) FROM numbers") > 0
    with suppress(TimeoutError):
        await reader.close(timeout=1)


_NICE_CLIENT = """
import asyncio, os, sys
from actors.primary import connect

async def main():
    connection = await connect(sys.argv[1], "test", 120.0, {})
    print(os.getpriority(os.PRIO_PROCESS, connection.get_server_pid()))
    await connection.close()

os.nice(4)
asyncio.run(main())
"""


async def test_backend_has_the_niceness_of_its_client(
    postgres_server: PostgresServer,
) -> None:
    """The server runs as this user, or this user may change every process."""
    client = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _NICE_CLIENT, postgres_server.admin_url, stdout=asyncio.subprocess.PIPE
    )
    shown, _ = await client.communicate()
    assert int(shown) == min(19, os.nice(0) + 4)
