"""The network edge and the simulated network as roles of processes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

import msgspec

from actors.essential import start_essential
from actors.metrics import Figures
from actors.network.acquirer_session import AcquirerSession
from actors.network.authentication_keys import AuthenticationKeys
from actors.network.auto_clearing import AutoClearing
from actors.network.card_secrets import CardSecrets
from actors.network.cards import cards_by_digest, cards_by_id
from actors.network.database import GENERIC_PLANS, DatabaseUnavailableError, NetworkDbConnection
from actors.network.edge import Edge
from actors.network.exchange import MessageCommand
from actors.network.messages import ACQUIRER_ID
from actors.network.outcome_recovery import OutcomeRecovery
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.respondent import Respondent
from actors.network.simulated_network import SimulatedNetwork
from actors.roles import Context
from actors.router import Router
from actors.vault import Vault
from engine.commands import Command
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS
from engine.replies import Reply
from engine.simulation import Acceptance, SimulationRequest

_decode_requests = msgspec.msgpack.Decoder(list[SimulationRequest]).decode
_acceptances: msgspec.msgpack.Decoder[list[Acceptance] | None] = msgspec.msgpack.Decoder(
    list[Acceptance] | None
)
_encode = msgspec.msgpack.Encoder().encode
_RESUME_PAUSE_SECONDS = 1.0


class EdgeRole:
    """Listens at ``iso8583_host`` and ``iso8583_port``."""

    def __init__(self, context: Context) -> None:
        self._settings = context.settings
        self._router = Router(context.peers)
        self._db = NetworkDbConnection(self._settings.database_dsn, "stanchion-edge")
        vault = Vault.from_settings(self._settings)
        card_secrets = CardSecrets(vault)
        router = self._router
        cards = cards_by_digest(self._db)
        self.authentication_keys = AuthenticationKeys(self._db.fetch, vault)
        self.respondent = Respondent(
            self._submit,
            cards,
            card_secrets,
            should_shed=router.sheds,
            authentication_keys=self.authentication_keys.of,
        )
        self.edge = Edge(self.respondent, congested=router.congested, deferred=lambda: router.deferred)

    async def start(self) -> None:
        self._router.start()
        self.authentication_keys.start()
        await self.edge.start(self._settings.iso8583_host, self._settings.iso8583_port)

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        wire, requests = self.edge.counts, self.respondent.counts
        return {
            "stanchion_wire_connections": self.edge.connected,
            "stanchion_wire_turned_away": wire.refused,
            "stanchion_wire_cut": wire.cut,
            "stanchion_wire_idle": wire.idle,
            "stanchion_wire_requests": wire.requests,
            "stanchion_wire_malformed": wire.malformed,
            "stanchion_wire_shed": wire.shed + requests.shed,
            "stanchion_wire_unknown_cards": self.respondent.probes.counts.unknown_cards,
            "stanchion_wire_wrong_values": self.respondent.probes.counts.wrong_values,
            "stanchion_wire_probes_limited": self.respondent.probes.counts.limited,
            "stanchion_wire_answered": requests.answered,
            "stanchion_wire_seconds": self.respondent.seconds.figure(),
            "stanchion_wire_expired": requests.expired,
            "stanchion_wire_late_approvals": requests.late_approvals,
            "stanchion_wire_undone": self.respondent.late_reversals.counts.done,
            "stanchion_wire_undoing": self.respondent.late_reversals.open,
            "stanchion_open_commands": self._router.open,
        }

    async def stop(self) -> None:
        await self.edge.stop()
        await self.authentication_keys.stop()
        await self._router.stop()
        self._db.close()

    def _submit(self, command: Command, *, repeat: bool = False) -> Awaitable[Reply]:
        """Owners start no command after the network's deadline. The edge waits longer for the reply, because
        it must reverse a late approval."""
        rrn = command.wire.rrn if isinstance(command, MessageCommand) else None
        return self._router.submit(
            command,
            timeout_ms=AUTHORIZATION_DEADLINE_MS,
            patience_ms=REST_DEADLINE_MS,
            trace=rrn,
            repeat=repeat,
        )


class NetworkRole:
    """The simulated network. It connects to the edge over TCP, like a real network."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        dsn = settings.database_dsn
        card_rows = NetworkDbConnection(dsn, "stanchion-network-cards")
        inserts = NetworkDbConnection(dsn, "stanchion-network-open")
        updates = NetworkDbConnection(dsn, "stanchion-network-move", session=GENERIC_PLANS)
        clearing = NetworkDbConnection(dsn, "stanchion-network-clear")
        self._db_connections = (card_rows, inserts, updates, clearing)
        self._session = AcquirerSession(settings.iso8583_host, settings.iso8583_port)
        self._store = PostgresSimulationStore(
            ACQUIRER_ID, inserts, updates, auto_clear_seconds=settings.auto_clear_seconds
        )
        card_secrets = CardSecrets(Vault.from_settings(settings))
        cards = cards_by_id(card_rows, card_secrets)
        self._network = SimulatedNetwork(self._session, self._store, cards)
        self._clears = settings.auto_clear_seconds > 0
        self._auto_clearing = AutoClearing(self._network, self._session, clearing)
        self._outcome_recovery = OutcomeRecovery(self._network, cards, clearing)
        self._resuming: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self._session.start()
        self._resuming = start_essential(self._resume(), "resume")
        self._outcome_recovery.start()
        if self._clears:
            self._auto_clearing.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        """``accept``: a list of requests (``engine.simulation``). Returns null if the database is
        unavailable."""
        if method != "accept":
            raise ValueError(method)
        try:
            return _encode(await self._network.accept(_decode_requests(payload)))
        except DatabaseUnavailableError:
            return _encode(None)

    def figures(self) -> Figures:
        return {
            "stanchion_network_cleared": self._auto_clearing.counts.cleared,
            "stanchion_network_settled": self._outcome_recovery.counts.recovered,
            "stanchion_network_lost_moves": self._store.lost_changes,
        }

    async def stop(self) -> None:
        if self._resuming is not None:
            self._resuming.cancel()
            await asyncio.gather(self._resuming, return_exceptions=True)
        await self._auto_clearing.stop()
        await self._outcome_recovery.stop()
        await self._network.stop()
        await self._session.stop()
        for db in self._db_connections:
            db.close()

    async def _resume(self) -> None:
        while True:
            try:
                await self._network.resume()
            except DatabaseUnavailableError:
                await asyncio.sleep(_RESUME_PAUSE_SECONDS)
            else:
                return


def encode_requests(requests: Sequence[SimulationRequest]) -> bytes:
    """The payload of ``accept``."""
    return _encode(requests)


def decode_acceptances(answer: bytes) -> list[Acceptance] | None:
    """The answer of ``accept``."""
    return _acceptances.decode(answer)
