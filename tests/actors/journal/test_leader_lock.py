"""The lock of the coordinator that leads, on a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pytest

from actors.journal import leader_lock as module
from actors.journal.leader_lock import LeaderLock
from engine.limits import LEADER_CHECK_SECONDS, LEADER_LEASE_SECONDS
from ops.chaos.environment.proxy import Proxy
from tests.support.actors.cluster.fakes import until
from tests.support.actors.journal.backends import PostgresBackend


@pytest.fixture
async def locks(
    postgres: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[LeaderLock, LeaderLock]]:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.01)
    both = LeaderLock(postgres.url), LeaderLock(postgres.url)
    yield both
    for lock in both:
        lock.close()


async def test_second_coordinator_gets_the_lock_when_the_first_has_gone(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    first, second = locks
    assert await first.try_acquire()
    assert await second.try_acquire() is False
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0.05)
    assert first.held
    assert not waiting.done()
    first.close()
    async with asyncio.timeout(60):
        await waiting
    assert second.held


async def test_lock_that_the_server_has_forgotten_is_acquired_again(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    first, second = locks
    await first.acquire()
    await postgres.session.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stanchion-leader'"
    )
    await until(lambda: not first.held)
    await first.acquire()
    assert first.held
    assert await second.try_acquire() is False


async def test_leader_whose_network_is_cut_loses_the_lock(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    """No connection is closed, and the proxy's kernel answers the server's keepalive probes: only the lease
    ends."""
    second = locks[1]
    port = urlsplit(postgres.url).port
    assert port is not None
    async with Proxy(port) as network:
        cut_off = LeaderLock(postgres.url.replace(f":{port}/", f":{network.port}/"))
        assert await cut_off.try_acquire()
        assert await second.try_acquire() is False
        network.hold()
        async with asyncio.timeout(60):
            await second.acquire()
        assert await cut_off.try_acquire() is None
        assert not cut_off.held


async def test_leader_that_renews_its_lock_keeps_it(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    first, second = locks
    limit = await _lease_ms(postgres, first)
    assert 2 * LEADER_CHECK_SECONDS * 1000 < limit <= LEADER_LEASE_SECONDS * 1000
    for _ in range(3):
        assert await first.try_acquire()
        assert await second.try_acquire() is False


async def _lease_ms(postgres: PostgresBackend, lock: LeaderLock) -> int:
    """The time after which the server ends the holder's session."""
    assert await lock.try_acquire()
    connection = await lock._connected()
    return int(
        await connection.fetchval("SELECT setting FROM pg_settings WHERE name = 'idle_session_timeout'")
    )


async def test_given_up_wait_does_not_get_the_lock_later(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    first, second = locks
    assert await first.try_acquire()
    waiting = asyncio.create_task(second.acquire())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    first.close()
    async with asyncio.timeout(60):
        await first.acquire()
    assert not second.held


async def test_session_that_waits_keeps_no_snapshot(
    postgres: PostgresBackend, locks: tuple[LeaderLock, LeaderLock]
) -> None:
    first, second = locks
    assert await first.try_acquire()
    assert await second.try_acquire() is False
    states = await postgres.session.fetch(
        "SELECT state, backend_xmin FROM pg_stat_activity WHERE application_name = 'stanchion-leader'"
    )
    assert [tuple(state) for state in states] == [("idle", None)] * 2


async def test_database_that_does_not_answer_gives_no_lock() -> None:
    lock = LeaderLock("postgresql://nobody@127.0.0.1:1/none")
    assert await lock.try_acquire() is None
    assert not lock.held
