"""The network edge and the simulated network as roles of processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import structlog

from actors.essential import start_essential
from actors.metrics import Figures, Histogram
from actors.network.acceptance_codec import (
    decode_requests,
    decode_spends,
    encode_acceptances,
    encode_outcomes,
)
from actors.network.acquirer_session import AcquirerSession
from actors.network.authentication_keys import AuthenticationKeys
from actors.network.auto_clearing import AutoClearing
from actors.network.card_secrets import CardSecrets
from actors.network.cards import cards_by_digest, cards_by_id
from actors.network.database import GENERIC_PLANS, DatabaseUnavailableError, NetworkDbConnection
from actors.network.edge import Edge
from actors.network.edge_counts import EdgeCounts
from actors.network.edge_times import EdgeTimes
from actors.network.exchange import MessageCommand
from actors.network.health_port import HealthPort
from actors.network.link_reports import link_reporter
from actors.network.link_set import LinkSet
from actors.network.links.entry import DEFAULT_LINK, LinkEntry
from actors.network.links.file import configured_links, simulator_address
from actors.network.links.mac import LinkMac
from actors.network.links.screening import Screening
from actors.network.links.status import METHOD, encode_statuses
from actors.network.messages import ACQUIRER_ID
from actors.network.outcome_recovery import OutcomeRecovery
from actors.network.postgres_simulation_store import PostgresSimulationStore
from actors.network.probe_limiter import ProbeLimiter
from actors.network.respondent import Respondent
from actors.network.simulated_network import SimulatedNetwork
from actors.roles import Context
from actors.router import Router
from actors.settings import Settings
from actors.tracing import close_tracer, open_tracer
from actors.vault import Vault
from actors.warm_standby import WarmStandby
from engine.commands import Command
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS
from engine.replies import Reply

_log = structlog.get_logger(__name__)
_RESUME_PAUSE_SECONDS = 1.0
NETWORK_LOCK = 0x6E65_7477
"""Number of the active simulated network's lock in the database."""


class _Link(NamedTuple):
    """One link at this edge process."""

    edge: Edge
    respondent: Respondent


class EdgeRole:
    """Serves the links of ``STANCHION_LINKS``, or the default listener."""

    def __init__(self, context: Context) -> None:
        self._settings = context.settings
        self._tracer = open_tracer(context.settings, context.name)
        self._router = Router(context.peers, self._tracer)
        self._db = NetworkDbConnection(self._settings.database_dsn, "stanchion-edge")
        self._sign_offs_db = NetworkDbConnection(self._settings.database_dsn, "stanchion-edge-links")
        vault = Vault.from_settings(self._settings)
        self._card_secrets = CardSecrets(vault)
        self._cards = cards_by_digest(self._db)
        self.authentication_keys = AuthenticationKeys(self._db.fetch, vault)
        self._probes = ProbeLimiter(time.monotonic)
        self._seconds = Histogram()
        entries = configured_links(self._settings)
        self.links = LinkSet(entries, self._build, self._signed_off, self._probes, self._seconds)
        self._reporter = link_reporter(context.name, self.links.statuses, self._sign_offs_db.fetch)
        self._health = _health_port(self._settings, self.links)

    async def start(self) -> None:
        self._router.start()
        self.authentication_keys.start()
        await self.links.start()
        self._reporter.start()
        if self._health is not None:
            await self._health.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        """``METHOD``: the states of the links (``links.status``)."""
        if method != METHOD:
            raise ValueError(method, len(payload))
        return encode_statuses(self.links.statuses())

    def figures(self) -> Figures:
        return self.links.figures() | {"stanchion_open_commands": self._router.open}

    async def stop(self) -> None:
        if self._health is not None:
            # First: the node's probe fails while the edge answers what it has read.
            await self._health.stop()
        await self._reporter.stop()
        await self.links.stop()
        await self.authentication_keys.stop()
        await self._router.stop()
        self._db.close()
        self._sign_offs_db.close()
        await close_tracer(self._tracer)

    def _build(self, entry: LinkEntry, open_elsewhere: Callable[[], int] | None) -> _Link:
        counts = EdgeCounts()
        respondent = Respondent(
            self._submit,
            self._cards,
            self._card_secrets,
            should_shed=self._router.should_shed,
            probes=self._probes,
            seconds=self._seconds,
            verification=entry.profile.verification,
            authentication_keys=self.authentication_keys.of,
            live=entry.live,
            screen=Screening(entry, counts) if entry.screens else None,
            link=None if entry.name == DEFAULT_LINK else entry.name,
            tracer=self._tracer,
        )
        edge = Edge(
            respondent,
            entry=entry,
            profile=entry.profile,
            mac=None if entry.mac is None else LinkMac(entry.mac, entry.profile),
            counts=counts,
            congested=self._router.congested,
            deferred=lambda: self._router.deferred,
            open_elsewhere=open_elsewhere,
            connections_max=entry.connections,
            per_address_max=entry.per_address,
            times=EdgeTimes(idle_seconds=entry.idle_seconds, silent_seconds=entry.silent_seconds),
        )
        return _Link(edge, respondent)

    async def _signed_off(self) -> frozenset[str]:
        return frozenset(row["name"] for row in await self._sign_offs_db.fetch("find_signed_off_links"))

    def _submit(self, command: Command, *, repeat: bool = False) -> Awaitable[Reply]:
        """Owners start no command after the network's deadline. The edge waits longer for the reply, because
        it must reverse a late approval."""
        rrn = command.wire.rrn if isinstance(command, MessageCommand) else None
        return self._router.submit(
            command,
            timeout_ms=AUTHORIZATION_DEADLINE_MS,
            reply_timeout_ms=REST_DEADLINE_MS,
            trace=rrn,
            repeat=repeat,
        )


def _health_port(settings: Settings, links: LinkSet) -> HealthPort | None:
    if not settings.edge_health_port:
        return None
    # The API listens on every address of the node, or on this one.
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(settings.api_host, settings.api_host)
    return HealthPort(
        (settings.iso8583_host, settings.edge_health_port),
        links.statuses,
        (host, settings.api_port),
        api_tls=settings.tls_cert_file is not None,
    )


class NetworkRole(WarmStandby):
    """The active simulated network, or its standby. Two active ones are harmless: each carries out its own
    simulations, and repeats of earlier ones have no second effect."""

    def __init__(self, context: Context) -> None:
        super().__init__(context, NETWORK_LOCK, ActiveNetwork)


class ActiveNetwork:
    """The simulated network. It connects to the edge over TCP, like a real network: to the first link that
    listens in test mode without TLS. Without such a link no simulation is sent."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        dsn = settings.database_dsn
        card_rows = NetworkDbConnection(dsn, "stanchion-network-cards")
        inserts = NetworkDbConnection(dsn, "stanchion-network-open", session=GENERIC_PLANS)
        updates = NetworkDbConnection(dsn, "stanchion-network-move", session=GENERIC_PLANS)
        clearing = NetworkDbConnection(dsn, "stanchion-network-clear")
        self._db_connections = (card_rows, inserts, updates, clearing)
        address = simulator_address(configured_links(settings), ACQUIRER_ID)
        self._reachable = address is not None
        self._session = AcquirerSession(*(address or ("", 0)))
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
        if self._reachable:
            self._session.start()
        else:
            _log.warning("no_link_for_simulations")
        self._resuming = start_essential(self._resume(), "resume")
        self._outcome_recovery.start()
        if self._clears:
            self._auto_clearing.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        """``accept`` and ``spend`` (``acceptance_codec``). API servers of the release before call ``accept``
        for spends too, after checking the card."""
        try:
            if method == "spend":
                return encode_outcomes(await self._network.spend(decode_spends(payload)))
            if method == "accept":
                return encode_acceptances(await self._network.accept(decode_requests(payload)))
        except DatabaseUnavailableError:
            return encode_acceptances(None)
        raise ValueError(method)

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
