"""The simulated network: it plays terminal, acquirer and scheme in test mode, over the same TCP wire as a
real one.

``accept`` records what is asked and returns; the wire legs run behind it. What was under way when this
process died stays ``accepted`` or ``sent``: nobody knows whether it reached the platform, so a request is
never sent again (spec 3.4: after a safe interval the outcome is unknown). Reversals and presentments are,
by ``resume``: they must arrive, and a repeat of them changes nothing twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.clock import Clock, SystemClock
from actors.ids import new_id_beside
from actors.network.cards import CardsById, Plastic
from actors.network.legs import Legs, Wire
from actors.network.simulations import Book, Draft, Failure, Move, Opening
from actors.network.statements import message_of, network_txn_id, rrn, wire_stan
from engine.iso8583.codec import EncodeError, encode
from engine.iso8583.elements import ElementError
from engine.iso8583.message import Message, as_repeat
from engine.limits import NETWORK_LATE_SECONDS, NETWORK_TIMEOUT_MS, WIRE_AMOUNT_MINOR_MAX
from engine.simulation import (
    Acceptance,
    ClearingRequest,
    FollowUpRequest,
    ForcePostRequest,
    Original,
    SimulationRequest,
    SpendRequest,
)

_AMOUNT_TOO_LARGE = Failure(
    "pre_build", "amount_too_large", "The amount does not fit the twelve digits of DE4."
)
_CARD_UNREADABLE = Failure("pre_build", "card_unreadable", "The card's number could not be read.")
_NOT_ENCODABLE = Failure("pre_build", "message_not_encodable", "A value does not fit its field.")
_NOT_OFFERED = Failure(
    "pre_build", "scenario_not_offered", "This network does not stand in for refunds and verifications."
)


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
        self._legs = Legs(wire, book, self._clock, timeout_ms / 1000, late_seconds)

    async def accept(self, requests: Sequence[SimulationRequest]) -> list[Acceptance]:
        """Records ``requests`` durably and starts their wire legs; acceptances in the same order.

        ``DatabaseUnavailableError`` when they cannot be recorded; nothing of that kind (spends, follow-ups)
        has been sent then. A follow-up whose id was accepted before is not sent again: its first acceptance
        is given once more.
        """
        spends = [request for request in requests if isinstance(request, SpendRequest)]
        follow_ups = [request for request in requests if not isinstance(request, SpendRequest)]
        openings = [*await self._spend(spends), *(await self._follow(follow_ups))[0]]
        acceptances = {opening.request.simulation_id: _acceptance(opening) for opening in openings}
        return [acceptances[request.simulation_id] for request in requests]

    async def clear(self, originals: Sequence[Original]) -> list[asyncio.Task[None]]:
        """Presents all that is left of these sales, as the network's own doing; the legs that do it."""
        now_ms = self._clock.now_ms()
        requests = [
            ClearingRequest(
                simulation_id=new_id_beside(original.request.card_id), accepted_ms=now_ms, original=original
            )
            for original in originals
        ]
        return (await self._follow(requests, automatic=True))[1]

    async def resume(self) -> int:
        """Repeats reversals and presentments that an earlier life of this network has left without an
        answer; their number."""
        openings = await self._book.unanswered()
        plastics = await self._cards.find_all([opening.request.card_id for opening in openings])
        for opening, plastic in zip(openings, plastics, strict=True):
            if plastic is not None:
                self._legs.start(opening, as_repeat(message_of(opening, plastic)))
        return len(openings)

    def under_way(self, opening: Opening) -> bool:
        """Whether a leg of ``opening`` still sends messages or waits for answers."""
        return self._legs.under_way(opening.request.simulation_id)

    def settle(self, opening: Opening, answer: Message) -> None:
        """Decides the failed row ``opening`` by ``answer``, which did not reach this network in time."""
        self._legs.settle(opening, answer)

    async def stop(self) -> None:
        """Stops all wire legs and waits until what they did is recorded."""
        await self._legs.stop()
        await self._book.drain()

    # --- spends

    async def _spend(self, requests: Sequence[SpendRequest]) -> list[Opening]:
        if not requests:
            return []
        plastics = await self._cards.find_all([request.card_id for request in requests])
        serials = await self._book.take_stans(len(requests))
        prepared = [
            self._prepare(request, plastic, serial)
            for request, plastic, serial in zip(requests, plastics, serials, strict=True)
        ]
        await self._book.open([spend.opening for spend in prepared])
        for spend in prepared:
            if spend.message is not None:
                self._legs.start(spend.opening, spend.message)
        return [spend.opening for spend in prepared]

    def _prepare(self, request: SpendRequest, plastic: Plastic | None, serial: int) -> _Prepared:
        """Builds the message of one spend, or the reason why there is none."""
        stands_in = request.scenario == "force_stip_timeout"
        if request.amount_minor > WIRE_AMOUNT_MINOR_MAX:
            return self._refused(request, _AMOUNT_TOO_LARGE)
        if stands_in and (request.kind == "refund" or not request.amount_minor):
            return self._refused(request, _NOT_OFFERED)
        if plastic is None:
            return self._refused(request, _CARD_UNREADABLE)
        stan = wire_stan(serial)
        opening = Opening(
            request=request,
            stan=stan,
            rrn=rrn(stan, request.accepted_ms),
            network_txn_id=network_txn_id(serial),
        )
        try:
            message = message_of(opening, plastic)
            encode(message)
        except (ElementError, EncodeError):
            return self._refused(request, _NOT_ENCODABLE)
        return _Prepared(opening, message)

    def _refused(self, request: SpendRequest, failure: Failure) -> _Prepared:
        return _Prepared(Opening(request=request, failed_ms=self._clock.now_ms(), failure=failure))

    # --- follow-ups

    async def _follow(
        self, requests: Sequence[FollowUpRequest], *, automatic: bool = False
    ) -> tuple[list[Opening], list[asyncio.Task[None]]]:
        if not requests:
            return [], []
        card_ids = [_card_id(request) for request in requests]
        plastics = dict(zip(card_ids, await self._cards.find_all(card_ids), strict=True))
        serials = await self._book.take_stans(len(requests))
        drafts = [
            _draft(request, plastics[_card_id(request)], serial)
            for request, serial in zip(requests, serials, strict=True)
        ]
        opened = await self._book.follow(drafts, automatic=automatic)
        legs = [
            self._say(each.opening, plastic)
            for each in opened
            if each.fresh
            and each.opening.failure is None
            and (plastic := plastics[each.opening.request.card_id]) is not None
        ]
        return [each.opening for each in opened], [leg for leg in legs if leg is not None]

    def _say(self, opening: Opening, plastic: Plastic) -> asyncio.Task[None] | None:
        try:
            message = message_of(opening, plastic)
            encode(message)
        except (ElementError, EncodeError):
            # What was said of the sale before could be encoded; only a force post gets here.
            failed_ms = self._clock.now_ms()
            simulation_id = opening.request.simulation_id
            failure = msgspec.structs.replace(_NOT_ENCODABLE, stage="post_build")
            self._book.move(
                Move(simulation_id=simulation_id, state="failed", failed_ms=failed_ms, failure=failure)
            )
            return None
        return self._legs.start(opening, message)


def _draft(request: FollowUpRequest, plastic: Plastic | None, serial: int) -> Draft:
    failure = _CARD_UNREADABLE if plastic is None else None
    if (request.amount_minor or 0) > WIRE_AMOUNT_MINOR_MAX:
        failure = _AMOUNT_TOO_LARGE
    stan = wire_stan(serial)
    life = (
        network_txn_id(serial) if isinstance(request, ForcePostRequest) else request.original.network_txn_id
    )
    return Draft(
        request=request,
        stan=stan,
        rrn=rrn(stan, request.accepted_ms),
        network_txn_id=life,
        failure=failure,
    )


def _card_id(request: FollowUpRequest) -> str:
    return request.card_id if isinstance(request, ForcePostRequest) else request.original.request.card_id


def _acceptance(opening: Opening) -> Acceptance:
    return Acceptance(
        simulation_id=opening.request.simulation_id,
        accepted_ms=opening.request.accepted_ms,
        stan=opening.stan,
        rrn=opening.rrn,
        network_txn_id=opening.network_txn_id,
    )
