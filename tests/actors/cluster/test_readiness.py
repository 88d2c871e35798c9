"""Readiness checks: every part is checked, and frozen parts do not delay the result. No Ray."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from functools import partial

import asyncpg
import pytest
from aiohttp import web

from actors.cluster.readiness import (
    NotReadyError,
    accepts,
    all_owned,
    answers_http,
    answers_sql,
    listens,
    not_ready,
)
from actors.network.links.status import encode_statuses
from actors.peers import PeerFailedError, PeerGoneError, RoutingTable
from engine.limits import SHARD_COUNT
from tests.support.ops.links import status

AMPLE = 60.0


async def fine() -> None:
    """The check of a ready part."""


def failing(failure: BaseException) -> object:
    async def check() -> None:
        raise failure

    return check


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (NotReadyError("3 have no owner"), "3 have no owner"),
        (PeerGoneError("edge"), "not running"),
        (ConnectionRefusedError(), "not running"),
        (PeerFailedError("edge: OSError"), "its role does not start"),
        (TimeoutError(), "no answer"),
        (asyncpg.InvalidPasswordError("secret"), "InvalidPasswordError"),
    ],
)
async def test_reasons_name_the_part_and_no_value(failure: BaseException, reason: str) -> None:
    checks = {"edge": failing(failure), "api": fine}
    assert await not_ready(checks, AMPLE) == {"edge": reason}  # type: ignore[arg-type]


async def test_ready_parts_give_no_reasons() -> None:
    assert await not_ready({"edge": fine, "api": fine}, AMPLE) == {}
    assert await not_ready({}, AMPLE) == {}


async def test_frozen_part_does_not_delay_the_answer() -> None:
    async def never() -> None:
        await asyncio.Event().wait()

    async with asyncio.timeout(AMPLE):
        assert await not_ready({"edge": never, "api": fine}, 0.01) == {"edge": "no answer"}


# --- ports ----------------------------------------------------------------------------------------------


@pytest.fixture
def frozen() -> Iterator[int]:
    """A port whose process never accepts; the kernel does, as for a stopped process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
async def healthy() -> AsyncIterator[int]:
    async def health(request: web.BaseRequest) -> web.Response:
        return web.Response(status=200 if request.path == "/healthz" else 503)

    runner = web.ServerRunner(web.Server(health))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield runner.addresses[0][1]
    await runner.cleanup()


async def test_port_that_listens_is_ready(healthy: int) -> None:
    await accepts("127.0.0.1", healthy)


async def test_closed_port_is_not_ready() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    checks = {"iso8583": lambda: accepts("127.0.0.1", port)}
    assert await not_ready(checks, AMPLE) == {"iso8583": "not running"}


async def test_frozen_api_server_is_not_ready(healthy: int, frozen: int) -> None:
    await answers_http(f"http://127.0.0.1:{healthy}/healthz")
    with pytest.raises(NotReadyError, match="answers 503"):
        await answers_http(f"http://127.0.0.1:{healthy}/other")
    checks = {"api": lambda: answers_http(f"http://127.0.0.1:{frozen}/healthz")}
    assert await not_ready(checks, 0.1) == {"api": "no answer"}


async def test_frozen_database_is_not_ready(frozen: int) -> None:
    checks = {"postgresql": lambda: answers_sql(f"postgresql://u:p@127.0.0.1:{frozen}/d", 0.1)}
    assert await not_ready(checks, AMPLE) == {"postgresql": "no answer"}


# --- shards ---------------------------------------------------------------------------------------------


async def shards(owners: tuple[str | None, ...], silent: str = "") -> list[str]:
    asked: list[str] = []

    async def table() -> RoutingTable:
        return RoutingTable(1, owners)

    async def ping(host: str) -> None:
        asked.append(host)
        if host == silent:
            raise PeerGoneError(host)

    await all_owned(table, ping)
    return asked


async def test_every_owner_is_pinged_once() -> None:
    assert await shards(("host-1", "host-2") * (SHARD_COUNT // 2)) == ["host-1", "host-2"]


async def test_shards_without_an_answering_owner_are_not_ready() -> None:
    with pytest.raises(NotReadyError, match="2 have no owner"):
        await shards((None, None, "host-1"))
    with pytest.raises(PeerGoneError):
        await shards(("host-1", "host-2"), silent="host-2")


@pytest.mark.parametrize(
    ("changes", "ready"),
    [
        ({}, True),
        ({"state": "signed_off"}, True),
        ({"state": "down"}, False),
        # The peer of such a link may be away.
        ({"state": "down", "direction": "connect"}, True),
    ],
)
async def test_links_that_should_listen_do(changes: dict[str, str], ready: bool) -> None:
    async def statuses() -> bytes:
        return encode_statuses([status(name="other"), status(**changes)])

    missing = await not_ready({"iso8583": partial(listens, statuses)}, AMPLE)
    assert missing == ({} if ready else {"iso8583": "link acme does not listen"})
