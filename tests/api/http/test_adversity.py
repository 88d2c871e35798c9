"""Slow clients, malformed requests on the socket, and a database that is unreachable, frozen or busy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import asyncpg
import httpx2
import pytest

from actors.connections import ConnectionLimits, ConnectionTable
from api.app import create_app
from api.database import pool as database
from api.http import json_body
from api.simulations.card_states import card_state_connection
from engine.limits import API_CONNECTIONS
from ops.embedded.ports import free_port
from tests.support.actors.outbox.waiting import eventually
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served


async def raw(base_url: str, *parts: bytes) -> tuple[bytes, bytes]:
    """Send bytes on a socket; returns the head and body of the response."""
    host, port = base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for part in parts:
        writer.write(part)
        await writer.drain()
    async with asyncio.timeout(60):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        body = await reader.readexactly(length)
    writer.close()
    return head, body


def impatient() -> ConnectionTable:
    """A connection table that times out request heads after 0.3 s of the loop's clock."""
    limits = ConnectionLimits(head_seconds=0.3, linger_seconds=0.1, sweep_seconds=0.02)
    return ConnectionTable(limits, clock=asyncio.get_running_loop().time)


def post(path: str, token: str, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {token}", *headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


async def test_unfinished_body_returns_408(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_body, "BODY_RECEIPT_SECONDS", 0.1)
    async with served(running.app) as base_url:
        head, body = await raw(base_url, post("/v1/programs", acme.token, "Content-Length: 100"), b"{")
    assert head.startswith(b"HTTP/1.1 408")
    assert b"connection: close" in head.lower()
    assert json.loads(body)["type"] == "/problems/request-timeout"


async def test_too_large_body_is_refused_before_its_end(running: Installation, acme: Caller) -> None:
    chunk = b"4000\r\n" + b" " * 0x4000 + b"\r\n"
    async with served(running.app) as base_url:
        head, body = await raw(
            base_url, post("/v1/programs", acme.token, "Transfer-Encoding: chunked"), *[chunk] * 5
        )
        assert head.startswith(b"HTTP/1.1 413")
        assert json.loads(body)["status"] == 413
        announced, _ = await raw(base_url, post("/v1/programs", acme.token, "Content-Length: 70000"))
        assert announced.startswith(b"HTTP/1.1 413")


async def test_chunked_body_is_read(running: Installation, acme: Caller) -> None:
    chunks = b'10\r\n{"name": "Slow",\r\n11\r\n"currency": "EUR"\r\n1\r\n}\r\n0\r\n\r\n'
    headers = ("Transfer-Encoding: chunked", "Idempotency-Key: chunks", "Content-Type: application/json")
    async with served(running.app) as base_url:
        head, body = await raw(base_url, post("/v1/programs", acme.token, *headers), chunks)
    assert head.startswith(b"HTTP/1.1 201"), body


MALFORMED = {
    "no http": b"hello\r\n\r\n",
    "tls": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /v1/cards\r\n\r\n",
    "unknown method": b"get! /v1/cards HTTP/1.1\r\nHost: x\r\n\r\n",
    "two lengths": b"POST /v1/cards HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a length that is none": b"POST /v1/cards HTTP/1.1\r\nContent-Length: x\r\n\r\n",
    "a path that is none": b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header without a name": b"GET /v1/cards HTTP/1.1\r\n: x\r\n\r\n",
}


@pytest.mark.parametrize("request_", MALFORMED.values(), ids=MALFORMED.keys())
async def test_malformed_http_returns_a_problem_body(running: Installation, request_: bytes) -> None:
    async with served(running.app) as base_url:
        head, body = await raw(base_url, request_)
    assert head.startswith(b"HTTP/1.1 4")
    assert b"content-type: application/problem+json" in head.lower()
    assert b"x-request-id: " in head.lower()
    assert json.loads(body)["type"].startswith("/problems/")


async def test_unfinished_head_returns_408(running: Installation) -> None:
    async with served(running.app, table=impatient()) as base_url:
        for beginning in (b"", b"GET /v1/cards HT", b"GET /v1/cards HTTP/1.1\r\nHost: x\r\n"):
            head, body = await raw(base_url, beginning)
            assert head.startswith(b"HTTP/1.1 408")
            assert json.loads(body)["type"] == "/problems/request-timeout"


async def test_unfinished_second_head_returns_408(running: Installation) -> None:
    async with served(running.app, table=impatient()) as base_url:
        host, port = base_url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" in await reader.readuntil(b"}")
        writer.write(b"GET /he")
        async with asyncio.timeout(60):
            assert b" 408 " in await reader.read()
        writer.close()


async def test_too_large_head_returns_431(running: Installation) -> None:
    line = b"X-Filler: " + b"x" * 1000 + b"\r\n"
    async with served(running.app) as base_url:
        head, body = await raw(base_url, b"GET /v1/cards HTTP/1.1\r\n", line * 40)
    assert head.startswith(b"HTTP/1.1 431")
    assert json.loads(body)["type"] == "/problems/request-head-too-large"


async def test_disconnecting_clients_do_not_affect_other_requests(
    running: Installation, acme: Caller
) -> None:
    async with served(running.app) as base_url:
        host, port = base_url.removeprefix("http://").split(":")
        for _ in range(20):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(post("/v1/programs", acme.token, "Content-Length: 100") + b"{")
            await writer.drain()
            writer.close()
        async with httpx2.AsyncClient(base_url=base_url) as http:
            acme.http = http
            assert (await acme.send("GET", "/v1/programs")).status_code == 200
            head = await acme.send("HEAD", "/v1/programs")
            assert (head.status_code, head.content) == (200, b"")


def unavailable(response: httpx2.Response) -> None:
    assert response.status_code == 500, response.text
    assert response.json()["type"] == "/problems/dependency-unavailable"
    assert int(response.headers["retry-after"]) >= 1


@asynccontextmanager
async def on_database(running: Installation, address: str) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of an API server that uses the database at ``address``."""
    pool, card_states = database.SharedPool(address, idle=0, size=2), card_state_connection(address)
    async with pool:
        app = create_app(replace(running.services, pool=pool, card_state_connection=card_states))
        transport = httpx2.ASGITransport(app=app)
        async with httpx2.AsyncClient(transport=transport, base_url="http://api.test") as http:
            yield http
        card_states.close()
        pool.terminate()


async def test_unreachable_database_returns_dependency_unavailable(
    running: Installation, acme: Caller
) -> None:
    async with on_database(running, f"postgresql://x:y@127.0.0.1:{free_port()}/z") as http:
        acme.http = http
        unavailable(await acme.send("GET", "/v1/cards"))
        form = {"grant_type": "client_credentials", "client_id": "a", "client_secret": "b"}
        unavailable(await http.post("/v1/oauth/token", data=form))


async def test_frozen_database_returns_dependency_unavailable(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 0.1)

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    frozen = await asyncio.start_server(silence, "127.0.0.1", 0)
    port = frozen.sockets[0].getsockname()[1]
    try:
        async with on_database(running, f"postgresql://x:y@127.0.0.1:{port}/z?sslmode=disable") as http:
            acme.http = http
            for _ in range(4):
                unavailable(await acme.send("GET", "/v1/cards"))
    finally:
        frozen.close()


async def test_hanging_statements_return_their_connections(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = await acme.product(await acme.programme())
    path = f"/v1/card-products/{product['id']}/retire"
    blocker = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        await blocker.execute("BEGIN")
        await blocker.execute(
            "SELECT 1 FROM card_products WHERE id = $1 FOR UPDATE".replace("$1", f"'{product['id']}'")
        )
        with monkeypatch.context() as patched:
            patched.setattr(database, "STATEMENT_SECONDS", 0.1)
            # More requests than connections in the pool.
            for response in await asyncio.gather(*(acme.send("POST", path) for _ in range(25))):
                unavailable(response)
    finally:
        await blocker.close()
    assert (await acme.post(path, status=200))["status"] == "retired"


SPEND = {
    "card_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
    "amount": {"amount": "1.00", "currency": "EUR"},
    "mcc": "5411",
    "merchant_name": "Corner Shop",
    "channel": "pos",
}


async def test_spend_without_card_states_returns_dependency_unavailable(
    running: Installation, acme: Caller
) -> None:
    nowhere = card_state_connection(f"postgresql://x:y@127.0.0.1:{free_port()}/z")
    async with running.on_earlier_network(card_state_connection=nowhere) as http:
        acme.http = http
        unavailable(await acme.send("POST", "/v1/simulated-spends", SPEND, key=None))


async def test_spends_recover_after_the_connections_of_the_network_were_cut(
    running: Installation, acme: Caller
) -> None:
    assert (await acme.send("POST", "/v1/simulated-spends", SPEND, key=None)).status_code == 404
    named = "application_name LIKE 'stanchion-network-%'"
    cut = f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {named}"
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    assert await connection.fetch(cut + " AND datname = current_database()")
    await connection.close()
    # Each cut connection fails at most one request.
    for _ in range(12):
        response = await acme.send("POST", "/v1/simulated-spends", SPEND, key=None)
        if response.status_code == 404:
            break
        unavailable(response)
    assert response.status_code == 404


async def test_abandoned_statement_ends_on_the_server(
    running: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 0.2)
    with pytest.raises(TimeoutError):
        await database.fetch(running.services.pool, "SELECT pg_sleep(600) AS abandoned")
    monkeypatch.undo()
    sleeping = "SELECT count(*) FROM pg_stat_activity WHERE query = 'SELECT pg_sleep(600) AS abandoned'"
    await eventually(lambda: running.services.pool.fetchval(f"SELECT 0 = ({sleeping} AND state = 'active')"))


async def test_every_session_of_the_api_has_a_statement_timeout(running: Installation) -> None:
    async with database.connected(running.services.pool) as connection:
        assert await connection.fetchval("SHOW statement_timeout") == "4s"
        assert await connection.fetchval("SHOW client_connection_check_interval") == "500ms"


async def test_slow_statements_of_one_tenant_leave_connections_for_others(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await running.caller("neighbour-of-the-slow-one")
    product = await acme.product(await acme.programme())
    monkeypatch.setattr(database, "STATEMENT_SECONDS", 600.0)
    dsn = running.services.settings.database_dsn
    blocker = await asyncpg.connect(dsn)
    async with database.SharedPool(dsn, statement_ms=600_000) as pool:
        app = create_app(replace(running.services, pool=pool))
        async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://t") as http:
            acme.http = other.http = http
            await blocker.execute(f"BEGIN; SELECT FROM card_products WHERE id = '{product['id']}' FOR UPDATE")
            path = f"/v1/card-products/{product['id']}/retire"
            slow = [asyncio.create_task(acme.send("POST", path)) for _ in range(30)]
            await eventually(lambda: blocker.fetchval(f"SELECT 0 < ({WAITING})"))
            for _ in range(5):
                assert (await asyncio.gather(*(other.send("GET", "/v1/programs") for _ in range(4))))[
                    3
                ].status_code == 200
            assert not any(task.done() for task in slow)
            assert await blocker.fetchval(WAITING) < API_CONNECTIONS / 2
            await blocker.close()
            assert {answer.status_code for answer in await asyncio.gather(*slow)} == {200}


WAITING = (
    "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
)


async def test_requests_recover_after_the_pool_connections_were_cut(
    running: Installation, acme: Caller
) -> None:
    cut = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND application_name = 'stanchion-api'"
        " AND pid <> pg_backend_pid()"
    )
    for _ in range(3):
        connection = await asyncpg.connect(running.services.settings.database_dsn)
        await connection.execute(cut)
        await connection.close()
        # Each cut connection of the pool fails at most one request.
        for _ in range(11):
            response = await acme.send("GET", "/v1/cards")
            if response.status_code == 200:
                break
            unavailable(response)
        assert response.status_code == 200
