"""The simulated network: it plays terminal, acquirer and scheme in test mode, over the same TCP wire as a
real one.

``accept`` records a spend and returns; the wire leg runs behind it. A message that is lost with its
connection is repeated as a real network would (0101), until the network's own time is over; then the
simulation has failed, and an answer that still comes decides it after all. What was under way when this
process died stays ``accepted`` or ``sent``: nobody knows whether it reached the platform, so it is never
sent again (spec 3.4: after a safe interval the outcome is unknown).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Final, Protocol

import msgspec
import structlog

from actors.clock import Clock, SystemClock
from actors.network.cards import CardsById, Plastic
from actors.network.session import NotConnectedError, SessionLostError
from actors.network.simulations import Book, Failure, Move, Opening
from engine.iso8583.acquirer import References, Sale, authorization_request, quoted_authorization_id
from engine.iso8583.codec import EncodeError, encode
from engine.iso8583.elements import ElementError
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.respond import approves
from engine.limits import NETWORK_LATE_SECONDS, NETWORK_TIMEOUT_MS, WIRE_AMOUNT_MINOR_MAX
from engine.simulation import Acceptance, SpendRequest

ACQUIRER_ID: Final = "424242"
"""DE32 of the simulated acquirer."""
STANS: Final = 999_999

_log = structlog.get_logger(__name__)

_AMOUNT_TOO_LARGE = Failure(
    "pre_build", "amount_too_large", "The amount does not fit the twelve digits of DE4."
)
_CARD_UNREADABLE = Failure("pre_build", "card_unreadable", "The card's number could not be read.")
_NOT_ENCODABLE = Failure("pre_build", "message_not_encodable", "A value does not fit its field.")
_NOT_OFFERED = Failure("pre_build", "scenario_not_offered", "This network does not play that scenario.")
_NOT_CONNECTED = Failure("post_build", "not_connected", "The network had no connection to the platform.")
_CONNECTION_LOST = Failure("post_build", "connection_lost", "The connection ended before the answer came.")
_NO_ANSWER = Failure("post_build", "no_answer", "No answer came within the network's time.")


class Wire(Protocol):
    """The session as this network uses it (``actors.network.session.Session``)."""

    async def connected(self, timeout_seconds: float) -> None: ...

    def send(self, message: Message) -> asyncio.Future[Message]: ...

    def forget(self, message: Message) -> None: ...


class _Prepared(msgspec.Struct, frozen=True):
    """A spend that is about to be recorded; ``message`` is absent when it failed before one was built."""

    opening: Opening
    message: Message | None = None


class SimulatedNetwork:
    """``stop`` it once; what is under way then stays as it is recorded."""

    def __init__(
        self,
        wire: Wire,
        book: Book,
        cards: CardsById,
        *,
        clock: Clock | None = None,
        timeout_ms: int = NETWORK_TIMEOUT_MS,
        late_seconds: float = NETWORK_LATE_SECONDS,
    ) -> None:
        self._wire = wire
        self._book = book
        self._cards = cards
        self._clock = clock or SystemClock()
        self._timeout_seconds = timeout_ms / 1000
        self._late_seconds = late_seconds
        self._legs: set[asyncio.Task[None]] = set()

    async def accept(self, requests: Sequence[SpendRequest]) -> list[Acceptance]:
        """Records ``requests`` durably and starts their wire legs; acceptances in the same order.

        ``DatabaseUnavailableError`` when they cannot be recorded; nothing has been sent then.
        """
        plastics = await self._cards.find_all([request.card_id for request in requests])
        serials = await self._book.take_stans(len(requests))
        prepared = [
            self._prepare(request, plastic, serial)
            for request, plastic, serial in zip(requests, plastics, serials, strict=True)
        ]
        await self._book.open([spend.opening for spend in prepared])
        for spend in prepared:
            if spend.message is not None:
                self._keep(asyncio.create_task(self._leg(spend.opening.request.simulation_id, spend.message)))
        return [_acceptance(spend.opening) for spend in prepared]

    async def stop(self) -> None:
        """Stops all wire legs and waits until what they did is recorded."""
        for leg in self._legs:
            leg.cancel()
        await asyncio.gather(*self._legs, return_exceptions=True)
        await self._book.drain()

    def _prepare(self, request: SpendRequest, plastic: Plastic | None, serial: int) -> _Prepared:
        """Builds the message of one spend, or the reason why there is none."""
        if request.amount_minor > WIRE_AMOUNT_MINOR_MAX:
            return self._refused(request, _AMOUNT_TOO_LARGE)
        if request.scenario == "force_stip_timeout":
            return self._refused(request, _NOT_OFFERED)
        if plastic is None:
            return self._refused(request, _CARD_UNREADABLE)
        references = References(ACQUIRER_ID, wire_stan(serial), self._clock.now_ms(), network_txn_id(serial))
        try:
            message = authorization_request(sale_of(request, plastic), references)
            encode(message)
        except (ElementError, EncodeError):
            return self._refused(request, _NOT_ENCODABLE)
        opening = Opening(
            request=request,
            stan=references.stan,
            rrn=references.rrn,
            network_txn_id=references.network_txn_id,
        )
        return _Prepared(opening, message)

    def _refused(self, request: SpendRequest, failure: Failure) -> _Prepared:
        return _Prepared(Opening(request=request, failed_ms=self._clock.now_ms(), failure=failure))

    async def _leg(self, simulation_id: str, message: Message) -> None:
        """Sends ``message``, repeats it when its connection is lost, and records what comes of it."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout_seconds
        failure = _NOT_CONNECTED
        while True:
            try:
                await self._wire.connected(deadline - loop.time())
                answer = self._wire.send(message)
            except NotConnectedError:
                self._fail(simulation_id, failure)
                return
            if failure is _NOT_CONNECTED:
                self._book.move(Move(simulation_id=simulation_id, state="sent", sent_ms=self._clock.now_ms()))
            try:
                async with asyncio.timeout_at(deadline):
                    self._decide(simulation_id, await asyncio.shield(answer))
                    return
            except TimeoutError:
                self._fail(simulation_id, _NO_ANSWER)
                self._await_late(simulation_id, message, answer)
                return
            except SessionLostError:
                failure = _CONNECTION_LOST
                message = as_repeat(message)

    def _await_late(self, simulation_id: str, message: Message, answer: asyncio.Future[Message]) -> None:
        """Notes an answer that comes after all, for a while."""
        answer.add_done_callback(partial(self._late, simulation_id))
        asyncio.get_running_loop().call_later(self._late_seconds, self._wire.forget, message)

    def _late(self, simulation_id: str, answer: asyncio.Future[Message]) -> None:
        if not answer.cancelled() and answer.exception() is None:
            _log.info("late_answer", simulation_id=simulation_id)
            self._decide(simulation_id, answer.result())

    def _decide(self, simulation_id: str, answer: Message) -> None:
        response_code = answer.fields.get(39, "")
        approved = approves(response_code)
        self._book.move(
            Move(
                simulation_id=simulation_id,
                state="decided",
                decided_ms=self._clock.now_ms(),
                response_code=response_code,
                approval_code=answer.fields.get(38),
                approved_minor=int(answer.fields[4]) if approved else None,
                authorization_id=quoted_authorization_id(answer),
            )
        )

    def _fail(self, simulation_id: str, failure: Failure) -> None:
        self._book.move(
            Move(
                simulation_id=simulation_id,
                state="failed",
                failed_ms=self._clock.now_ms(),
                failure=failure,
            )
        )

    def _keep(self, leg: asyncio.Task[None]) -> None:
        """Holds a reference until ``leg`` is done: the event loop itself keeps none."""
        self._legs.add(leg)
        leg.add_done_callback(self._legs.discard)


def wire_stan(serial: int) -> str:
    """DE11 of a serial number: it wraps, and 000000 is never used."""
    return f"{serial % STANS + 1:06d}"


def network_txn_id(serial: int) -> str:
    """The scheme's id for the whole life of a transaction; a serial number is never taken twice."""
    return f"SN{serial:013d}"


def sale_of(request: SpendRequest, plastic: Plastic) -> Sale:
    """The sale as the terminal sees it: scenarios are things it *does*."""
    partial_allowed = request.scenario == "partial_approval"
    return Sale(
        pan=plastic.pan,
        expiry=plastic.expiry,
        amount_minor=request.amount_minor,
        currency=request.currency,
        mcc=request.mcc,
        merchant_name=request.merchant_name,
        merchant_country=request.merchant_country,
        channel=request.channel,
        kind=request.kind,
        entry_mode=request.entry_mode,
        mit=request.mit,
        partial_allowed=partial_allowed,
        partial_cap_minor=request.approved_amount_minor if partial_allowed else None,
        cvv2=request.cvv2,
        auth_value=request.auth_value,
        threeds_ref=request.threeds_ref,
        scenario=request.scenario if request.scenario == "delegated_timeout" else None,
    )


def _acceptance(opening: Opening) -> Acceptance:
    return Acceptance(
        simulation_id=opening.request.simulation_id,
        accepted_ms=opening.request.accepted_ms,
        stan=opening.stan,
        rrn=opening.rrn,
        network_txn_id=opening.network_txn_id,
    )
