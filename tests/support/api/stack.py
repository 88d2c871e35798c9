"""An installation in one event loop: the API over the real shard host, journal, edge and simulated network.

Ray is replaced: ``LoopPeers`` calls the roles directly, in one process.
"""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import asyncpg
import httpx2
import msgspec
import pytest
from fastapi import FastAPI

from actors.connections import ConnectionTable
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.ids import new_id
from actors.network.roles import EdgeRole, NetworkRole
from actors.outbox.role import RelayRole
from actors.peers import NETWORK, PeerFailedError, PeerGoneError, RoutingTable
from actors.roles import Context, Role
from actors.router import Router
from actors.settings import Settings
from actors.shards.role import HostRole
from actors.tls import ServerTls
from actors.tracing import close_tracer, open_tracer
from actors.vault import Vault
from actors.webhooks.role import DispatcherRole
from api.app import create_app
from api.database.pool import SharedPool
from api.http.server import HttpServer
from api.services import Services
from api.serving import NetworkClient
from api.simulations.card_states import card_state_connection
from engine.limits import SHARD_COUNT
from ops.database.clients import create_client
from tests.support.api.driver import Caller

INCARNATION = "the-host-of-the-test"
Roles = tuple[tuple[str, Callable[[Context], Role]], ...]
ROLES: Roles = ((INCARNATION, HostRole), ("edge", EdgeRole), (NETWORK, NetworkRole))
PATIENCE_MS = 60_000
PATIENT = ("actors.network.roles.AUTHORIZATION_DEADLINE_MS", "actors.shards.exposure.STAND_IN_TIMEOUT_MS")
"""Limits of owners, which run on the machine's clock: on a busy machine they must not cause answers 91."""
DELIVERING: Roles = (("relay", RelayRole), ("dispatcher-0", DispatcherRole))


async def look_up(name: str) -> tuple[str, ...]:
    """Resolve names without DNS: ``nowhere.`` fails, ``private.`` is private, all others are public."""
    if name.startswith("nowhere."):
        raise OSError("no such name")
    return ("10.0.0.7",) if name.startswith("private.") else ("93.184.216.34",)


class LoopPeers:
    """``actors.peers.Peers`` in one loop: one host owns every shard."""

    def __init__(self) -> None:
        self.roles: dict[str, Role] = {}
        self._table = RoutingTable(0, (None,) * SHARD_COUNT)
        self._changed = asyncio.Event()

    @property
    def host(self) -> HostRole:
        """The owner of every shard."""
        role = self.roles[str(self._table.owners[0])]
        assert isinstance(role, HostRole), "owners are hosts"
        return role

    async def own(self, role: HostRole, incarnation: str) -> None:
        """Have ``role`` take every shard, and publish the new routing table."""
        await role.call("take", msgspec.msgpack.encode(list(range(SHARD_COUNT))))
        self.roles[incarnation] = role
        self._table = RoutingTable(self._table.version + 1, (incarnation,) * SHARD_COUNT)
        self._changed.set()
        self._changed = asyncio.Event()

    async def execute(self, incarnation: str, parcel: bytes) -> bytes:
        return await self.roles[incarnation].call("execute", parcel)

    async def prepare(self, incarnation: str) -> None:
        """There are no connections."""

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        return await self.roles[incarnation].call("collect", caller)

    async def table(self, after: int) -> RoutingTable:
        while self._table.version <= after:
            await self._changed.wait()
        return self._table

    async def publish_programme(self, programme: bytes) -> None:
        await self.host.call("programme_changed", programme)

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        if role not in self.roles:
            raise PeerGoneError(role)
        return await self.roles[role].call(method, payload)


class EarlierNetworkPeers:
    """``peers`` with a simulated network of the release before, which does not know ``spend``."""

    def __init__(self, peers: LoopPeers) -> None:
        self._peers = peers

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        if method == "spend":
            raise PeerFailedError(f"{role}: {ValueError.__name__}")
        return await self._peers.call(role, method, payload)


class Installation:
    """A running installation; ``http`` is a client of its API."""

    def __init__(self, services: Services, app: FastAPI, http: httpx2.AsyncClient, peers: LoopPeers) -> None:
        self.peers = peers
        self.services = services
        self.app = app
        self.http = http

    def variant(self, **changes: Any) -> httpx2.AsyncClient:
        """A client of another API server of this installation, with other settings."""
        services = dataclasses.replace(self.services, settings=self.services.settings.replace(**changes))
        transport = httpx2.ASGITransport(app=create_app(services))
        return httpx2.AsyncClient(transport=transport, base_url="http://api.test")

    def on_earlier_network(self, **services: Any) -> httpx2.AsyncClient:
        """A client of another API server of this installation, which calls a simulated network of the
        release before. ``services`` replaces other services of that server."""
        network = NetworkClient(EarlierNetworkPeers(self.peers))  # type: ignore[arg-type]
        changed = dataclasses.replace(self.services, network=network, **services)
        transport = httpx2.ASGITransport(app=create_app(changed))
        return httpx2.AsyncClient(transport=transport, base_url="http://api.test")

    async def replace_host(self) -> None:
        """Move every shard to a new host without state in memory."""
        await self.peers.host.stop()
        incarnation = new_id()
        successor = HostRole(Context(self.services.settings, incarnation, self.peers))
        await successor.start()
        await self.peers.own(successor, incarnation)

    async def execute(self, *statements: str) -> None:
        """Execute statements outside a transaction, without the time limit of the API's sessions."""
        connection = await asyncpg.connect(self.services.settings.database_dsn)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    async def caller(
        self, tenant: str = "acme", *, mode: str = "test", role: str = "admin", scopes: tuple[str, ...] = ()
    ) -> Caller:
        """A new client of ``tenant`` with a token for all its scopes."""
        connection = await asyncpg.connect(self.services.settings.database_dsn)
        try:
            credentials = await create_client(
                connection,
                self.services.vault,
                tenant=tenant,
                mode=mode,
                role=role,
                scopes=scopes,
                operator="test",
            )
        finally:
            await connection.close()
        caller = Caller(self.http, credentials)
        await caller.authenticate()
        return caller


@asynccontextmanager
async def installation(
    settings: Settings, vault: Vault, *, webhooks: bool = False
) -> AsyncIterator[Installation]:
    """Start every component in production order; stop in reverse order.

    ``webhooks`` also starts the delivery roles, which need a Redis in the settings.
    """
    peers = LoopPeers()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for limit in PATIENT:
            patch.setattr(limit, PATIENCE_MS)
        for name, build in ROLES + (DELIVERING if webhooks else ()):
            role = build(Context(settings, name, peers))
            peers.roles[name] = role
            await role.start()
            stack.push_async_callback(role.stop)
            if isinstance(role, HostRole):
                await peers.own(role, name)
        tracer = open_tracer(settings, "api-0")
        stack.push_async_callback(close_tracer, tracer)
        router = Router(peers, tracer)
        router.start()
        stack.push_async_callback(router.stop)
        pool = await stack.enter_async_context(SharedPool(settings.database_dsn))
        egress = Egress(
            settings.egress_allow,
            settings.egress_ca_file,
            receivers=LocalReceivers(settings.var_dir),
            lookup=look_up,
        )
        stack.push_async_callback(egress.close)
        card_states = card_state_connection(settings.database_dsn)
        stack.callback(card_states.close)
        network = NetworkClient(peers)
        services = Services(settings, pool, card_states, vault, router, network, egress, tracer=tracer)
        app = create_app(services)
        transport = httpx2.ASGITransport(app=app)
        http = await stack.enter_async_context(
            httpx2.AsyncClient(transport=transport, base_url="http://api.test")
        )
        yield Installation(services, app, http, peers)
        await peers.host.stop()


@asynccontextmanager
async def served(
    app: FastAPI, port: int = 0, table: ConnectionTable | None = None, tls: ServerTls | None = None
) -> AsyncIterator[str]:
    """Serve ``app`` over TCP for third-party clients; yields its address."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        server = HttpServer(app, table=table, tls=tls)
        serving = asyncio.create_task(server.serve([listener]))
        try:
            yield f"{'http' if tls is None else 'https'}://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.leave()
            await serving
