"""The role of an API server: the API and the vision host, each on its port, in one event loop."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, Final

import asyncpg

from actors.batcher import Batcher
from actors.egress.client import Egress
from actors.egress.receivers import LocalReceivers
from actors.metrics import Figures
from actors.network.acceptance_codec import decode_acceptances, decode_outcomes, encode_requests
from actors.peers import NETWORKS, PeerFailedError, PeerGoneError, Peers
from actors.periodic import PeriodicTask
from actors.roles import Context
from actors.router import Router
from actors.tls import ServerTls
from actors.tracing import close_tracer, open_tracer
from actors.vault import Vault
from actors.warm_standby import ActivePeer
from api.app import create_app
from api.backtests.leading import BacktestLeader
from api.database.pool import POOL_WAIT, SharedPool
from api.exports.writing import export_writer
from api.http.faults import NetworkUnavailableError
from api.http.server import HttpServer, connection_table
from api.services import Services
from api.simulations.card_states import card_state_connection
from api.sweepers.cardholders import cardholder_sweeper
from api.sweepers.custody import custody_sweeper
from api.sweepers.kyc import kyc_sweeper
from api.sweepers.metadata import metadata_sweeper
from api.sweepers.renewals import renewal_sweeper
from api.vision.app import create_app as create_vision_app
from engine.limits import SIMULATION_BATCH_MAX
from engine.simulation import Acceptance, SimulationRequest, SpendOutcome, SpendRequest

BACKLOG: Final = 2_048
_UNKNOWN_METHOD: Final = "ValueError"
"""Error of a simulated network of the release before when it is called for ``spend``."""


class ApiRole:
    """See ``actors.roles.Role``."""

    def __init__(self, context: Context) -> None:
        self._settings = context.settings
        self._tracer = open_tracer(context.settings, context.name)
        self._router = Router(context.peers, self._tracer)
        self._network = NetworkClient(context.peers)
        self._egress = Egress(
            self._settings.egress_allow,
            self._settings.egress_ca_file,
            receivers=LocalReceivers(self._settings.var_dir),
        )
        self._card_state_connection = card_state_connection(context.settings.database_dsn)
        self._servers: list[HttpServer] = []
        self._serving: list[asyncio.Task[None]] = []
        self._pool: asyncpg.Pool[asyncpg.Record] | None = None
        self._services: Services
        self._tasks = context.tasks
        self._backtests: BacktestLeader | None = None
        self._sweepers: tuple[PeriodicTask, ...] = ()

    async def start(self) -> None:
        settings = self._settings
        self._router.start()
        self._pool = await SharedPool(settings.database_dsn)
        services = self._services = Services(
            settings,
            self._pool,
            self._card_state_connection,
            Vault.from_settings(settings),
            self._router,
            self._network,
            self._egress,
            tracer=self._tracer,
        )
        self._sweepers = tuple(
            sweeper(services)
            for sweeper in (
                kyc_sweeper,
                cardholder_sweeper,
                renewal_sweeper,
                custody_sweeper,
                metadata_sweeper,
                export_writer,
            )
        )
        for sweeper in self._sweepers:
            sweeper.start()
        if self._tasks is not None:
            self._backtests = BacktestLeader(services, self._tasks)
            self._backtests.start()
        tls = ServerTls.from_settings(settings)
        await self._serve(create_app(services), settings.api_port, tls)
        await self._serve(create_vision_app(services), settings.vision_port, tls)

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        # Called only after the role has started.
        return self._services.counts.figures() | {
            "stanchion_open_commands": self._router.open,
            "stanchion_pool_wait_seconds": POOL_WAIT.figure(),
        }

    async def stop(self) -> None:
        for sweeper in self._sweepers:
            await sweeper.stop()
        if self._backtests is not None:
            await self._backtests.stop()
        for server in self._servers:
            server.leave()
        await asyncio.gather(*self._serving, return_exceptions=True)
        await self._router.stop()
        await self._egress.close()
        self._card_state_connection.close()
        if self._pool is not None:
            self._pool.terminate()
        await close_tracer(self._tracer)

    async def _serve(self, app: Any, port: int, tls: ServerTls | None) -> None:
        """Open the port, then serve in the background."""
        settings = self._settings
        listener = socket.create_server((settings.api_host, port), backlog=BACKLOG, reuse_port=True)
        server = HttpServer(app, table=connection_table(settings), tls=tls, base_url=settings.docs_base_url)
        self._servers.append(server)
        self._serving.append(asyncio.create_task(server.serve([listener])))


class NetworkClient:
    """Sends requests to the simulated network. Requests that arrive during a call are sent in the next one,
    as a batch."""

    def __init__(self, peers: Peers) -> None:
        self._network = ActivePeer(peers, NETWORKS)
        self._batches: Batcher[_PendingRequest] = Batcher(self._send, SIMULATION_BATCH_MAX)
        self._spends: Batcher[_PendingSpend] = Batcher(self._send_spends, SIMULATION_BATCH_MAX)

    async def accept(self, request: SimulationRequest) -> Acceptance:
        """Record a simulation and send it on its way; raises ``NetworkUnavailableError``."""
        pending = _PendingRequest(request)
        try:
            await self._batches.add([pending])
        except (PeerGoneError, PeerFailedError):
            raise NetworkUnavailableError from None
        if pending.acceptance is None:
            raise NetworkUnavailableError
        return pending.acceptance

    async def spend(self, request: SpendRequest) -> SpendOutcome | None:
        """See ``services.Network``."""
        pending = _PendingSpend(request)
        try:
            await self._spends.add([pending])
        except (PeerGoneError, PeerFailedError) as failure:
            if str(failure).endswith(_UNKNOWN_METHOD):
                return None
            raise NetworkUnavailableError from None
        if pending.outcome is None:
            raise NetworkUnavailableError
        return pending.outcome

    async def _send_spends(self, batch: list[_PendingSpend]) -> None:
        payload = encode_requests([pending.request for pending in batch])
        outcomes = decode_outcomes(await self._network.call("spend", payload))
        if outcomes is not None:
            for pending, outcome in zip(batch, outcomes, strict=True):
                pending.outcome = outcome

    async def _send(self, batch: list[_PendingRequest]) -> None:
        payload = encode_requests([pending.request for pending in batch])
        acceptances = decode_acceptances(await self._network.call("accept", payload))
        if acceptances is not None:
            for pending, acceptance in zip(batch, acceptances, strict=True):
                pending.acceptance = acceptance


class _PendingSpend:
    """A spend, and its outcome once its batch has been answered."""

    __slots__ = ("outcome", "request")

    def __init__(self, request: SpendRequest) -> None:
        self.request = request
        self.outcome: SpendOutcome | None = None


class _PendingRequest:
    """A request, and its acceptance once its batch has been answered."""

    __slots__ = ("acceptance", "request")

    def __init__(self, request: SimulationRequest) -> None:
        self.request = request
        self.acceptance: Acceptance | None = None
