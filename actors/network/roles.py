"""The network edge and the simulated network as processes of their own."""

from __future__ import annotations

from collections.abc import Awaitable

import msgspec

from actors.metrics import Figures
from actors.network.cards import cards_by_digest, cards_by_id
from actors.network.custody import CardCustody
from actors.network.database import DatabaseUnavailableError, Lane
from actors.network.edge import Edge
from actors.network.respondent import Respondent
from actors.network.session import Session
from actors.network.simulated import ACQUIRER_ID, SimulatedNetwork
from actors.network.simulations import PostgresBook
from actors.roles import Context
from actors.router import Router
from actors.vault import Vault
from engine.commands import Command
from engine.limits import AUTHORIZATION_DEADLINE_MS, REST_DEADLINE_MS
from engine.replies import Reply
from engine.simulation import Acceptance, SpendRequest

_decode_requests = msgspec.msgpack.Decoder(list[SpendRequest]).decode
_acceptances: msgspec.msgpack.Decoder[list[Acceptance] | None] = msgspec.msgpack.Decoder(
    list[Acceptance] | None
)
_encode = msgspec.msgpack.Encoder().encode


class EdgeRole:
    """Listens at ``iso8583_host`` and ``iso8583_port``."""

    def __init__(self, context: Context) -> None:
        self._settings = context.settings
        self._router = Router(context.peers)
        self._lane = Lane(self._settings.database_dsn, "stanchion-edge")
        custody = CardCustody(Vault.from_settings(self._settings))
        self.respondent = Respondent(self._submit, cards_by_digest(self._lane), custody)
        self.edge = Edge(self.respondent)

    async def start(self) -> None:
        self._router.start()
        await self.edge.start(self._settings.iso8583_host, self._settings.iso8583_port)

    async def call(self, method: str, payload: bytes) -> bytes:
        raise ValueError(method, len(payload))

    def figures(self) -> Figures:
        wire, requests = self.edge.counts, self.respondent.counts
        return {
            "stanchion_wire_connections": self.edge.connected,
            "stanchion_wire_requests": wire.requests,
            "stanchion_wire_malformed": wire.malformed,
            "stanchion_wire_answered": requests.answered,
            "stanchion_wire_expired": requests.expired,
            "stanchion_wire_late_approvals": requests.late_approvals,
            "stanchion_wire_undone": self.respondent.undoing.counts.done,
            "stanchion_wire_undoing": self.respondent.undoing.open,
            "stanchion_open_commands": self._router.open,
        }

    async def stop(self) -> None:
        await self.edge.stop()
        await self._router.stop()
        self._lane.close()

    def _submit(self, command: Command) -> Awaitable[Reply]:
        """No owner begins after the network's deadline, but an approval that comes late must be heard of."""
        return self._router.submit(
            command, timeout_ms=AUTHORIZATION_DEADLINE_MS, patience_ms=REST_DEADLINE_MS
        )


class NetworkRole:
    """The simulated network; it dials the edge as any network would."""

    def __init__(self, context: Context) -> None:
        settings = context.settings
        self._lanes = [
            Lane(settings.database_dsn, f"stanchion-network-{use}") for use in ("cards", "open", "move")
        ]
        cards, opening, moving = self._lanes
        self._session = Session(settings.iso8583_host, settings.iso8583_port)
        book = PostgresBook(ACQUIRER_ID, opening, moving)
        custody = CardCustody(Vault.from_settings(settings))
        self._network = SimulatedNetwork(self._session, book, cards_by_id(cards, custody))

    async def start(self) -> None:
        self._session.start()

    async def call(self, method: str, payload: bytes) -> bytes:
        """``accept``: a list of ``SpendRequest``; answers null when they could not be recorded."""
        if method != "accept":
            raise ValueError(method)
        try:
            return _encode(await self._network.accept(_decode_requests(payload)))
        except DatabaseUnavailableError:
            return _encode(None)

    def figures(self) -> Figures:
        return {}

    async def stop(self) -> None:
        await self._network.stop()
        await self._session.stop()
        for lane in self._lanes:
            lane.close()


def encode_requests(requests: list[SpendRequest]) -> bytes:
    """The payload of ``accept``."""
    return _encode(requests)


def decode_acceptances(answer: bytes) -> list[Acceptance] | None:
    """The answer of ``accept``."""
    return _acceptances.decode(answer)
