"""The API server as a process of its own: the API and the vision host, each on its port, in one loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import asyncpg

from actors.batcher import Batcher
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.metrics import Figures
from actors.network.roles import decode_acceptances, encode_requests
from actors.peers import NETWORK, PeerFailedError, PeerGoneError, Peers
from actors.periodic import PeriodicTask
from actors.roles import Context
from actors.router import Router
from actors.tls import ServerTls
from actors.vault import Vault
from api.app import create_app
from api.database.pool import POOL_WAIT, SharedPool
from api.exports.writing import export_writer
from api.http.faults import NetworkUnavailableError
from api.http.server import HttpServer, connection_table
from api.services import Services
from api.simulations.card_states import card_lane
from api.sweepers.cardholders import cardholder_sweeper
from api.sweepers.kyc import kyc_sweeper
from api.sweepers.metadata import metadata_sweeper
from api.vision.app import create_app as create_vision_app
from engine.limits import SIMULATION_BATCH_MAX
from engine.simulation import Acceptance, SimulationRequest

BACKLOG: Final = 2_048


class ApiRole:
    """See ``actors.roles.Role``."""

    def __init__(self, context: Context) -> None:
        self._settings = context.settings
        self._router = Router(context.peers)
        self._network = NetworkClient(context.peers)
        self._egress = Egress(
            self._settings.egress_allow,
            self._settings.egress_ca_file,
            receivers=LocalReceivers(self._settings.var_dir),
        )
        self._card_lane = card_lane(context.settings.database_dsn)
        self._servers: list[HttpServer] = []
        self._serving: list[asyncio.Task[None]] = []
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._services: Services
        self._sweepers: tuple[PeriodicTask, ...] = ()

    async def start(self) -> None:
        settings = self._settings
        self._router.start()
        self._pool = await SharedPool(settings.database_dsn)
        services = self._services = Services(
            settings,
            self._pool,
            self._card_lane,
            Vault.from_settings(settings),
            self._router,
            self._network,
            self._egress,
        )
        self._sweepers = (
            kyc_sweeper(services),
            cardholder_sweeper(services),
            metadata_sweeper(services),
            export_writer(services),
        )
        for sweeper in self._sweepers:
            sweeper.start()
        tls = ServerTls.from_settings(settings)
        await self._serve(create_app(services), settings.api_port, tls)
        await self._serve(create_vision_app(services), settings.vision_port, tls)

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        # Asked for only once the role has started.
        return self._services.counts.figures() | {
            "stanchion_open_commands": self._router.open,
            "stanchion_pool_wait_seconds": POOL_WAIT.figure(),
        }

    async def stop(self) -> None:
        for sweeper in self._sweepers:
            await sweeper.stop()
        for server in self._servers:
            server.should_exit = True
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._router.stop()
        await self._egress.close()
        self._card_lane.close()
        if self._pool is not None:
            self._pool.terminate()

    async def _serve(self, app: Any, port: int, tls: ServerTls | None) -> None:
        """Listen before the first request can come, then serve in the background."""
        settings = self._settings
        listener = socket.create_server((settings.api_host, port), backlog=BACKLOG, reuse_port=True)
        server = HttpServer(app, table=connection_table(settings), tls=tls, base_url=settings.docs_base_url)
        self._servers.append(server)
        self._serving.append(asyncio.create_task(server.serve([listener])))


class NetworkClient:
    """The way to the simulated network: requests that come while a call is under way travel in the next
    one."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._batches: Batcher[_Ordered] = Batcher(self._send, SIMULATION_BATCH_MAX)

    async def accept(self, request: SimulationRequest) -> Acceptance:
        """Record a simulation and send it on its way; raises ``NetworkUnavailableError``."""
        ordered = _Ordered(request)
        try:
            await self._batches.add([ordered])
        except (PeerGoneError, PeerFailedError):
            raise NetworkUnavailableError from None
        if ordered.acceptance is None:
            raise NetworkUnavailableError
        return ordered.acceptance

    async def _send(self, batch: list[_Ordered]) -> None:
        payload = encode_requests([ordered.request for ordered in batch])
        acceptances = decode_acceptances(await self._peers.call(NETWORK, "accept", payload))
        if acceptances is not None:
            for ordered, acceptance in zip(batch, acceptances, strict=True):
                ordered.acceptance = acceptance


class _Ordered:
    """A request and, once its batch is back, its acceptance."""

    __slots__ = ("acceptance", "request")

    def __init__(self, request: SimulationRequest) -> None:
        self.request = request
        self.acceptance: Acceptance | None = None
