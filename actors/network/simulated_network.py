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
from actors.network.cards import CardCredentials, CardsById
from actors.network.exchanges import Exchanges, MessageTransport
from actors.network.messages import message_of, network_txn_id, rrn, wire_stan
from actors.network.simulation_store import (
    Failure,
    PreparedFollowUp,
    Simulation,
    SimulationStore,
    StateChange,
)
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


class _PreparedSpend(msgspec.Struct, frozen=True):
    """A spend that is about to be recorded; ``message`` is absent when it failed before one was built."""

    simulation: Simulation
    message: Message | None = None


class SimulatedNetwork:
    """``stop`` it once; what is under way then stays as it is recorded."""

    def __init__(
        self,
        transport: MessageTransport,
        store: SimulationStore,
        cards: CardsById,
        *,
        clock: Clock | None = None,
        timeout_ms: int = NETWORK_TIMEOUT_MS,
        late_seconds: float = NETWORK_LATE_SECONDS,
    ) -> None:
        self._transport = transport
        self._store = store
        self._cards = cards
        self._clock = clock or SystemClock()
        self._legs = Exchanges(transport, store, self._clock, timeout_ms / 1000, late_seconds)

    async def accept(self, requests: Sequence[SimulationRequest]) -> list[Acceptance]:
        """Records ``requests`` durably and starts their wire legs; acceptances in the same order.

        ``DatabaseUnavailableError`` when they cannot be recorded; nothing of that kind (spends, follow-ups)
        has been sent then. A follow-up whose id was accepted before is not sent again: its first acceptance
        is given once more.
        """
        spends = [request for request in requests if isinstance(request, SpendRequest)]
        follow_ups = [request for request in requests if not isinstance(request, SpendRequest)]
        simulations = [*await self._spend(spends), *(await self._follow(follow_ups))[0]]
        acceptances = {
            simulation.request.simulation_id: _acceptance(simulation) for simulation in simulations
        }
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
        simulations = await self._store.unanswered()
        cards = await self._cards.find_all([simulation.request.card_id for simulation in simulations])
        for simulation, credentials in zip(simulations, cards, strict=True):
            if credentials is not None:
                self._legs.start(simulation, as_repeat(message_of(simulation, credentials)))
        return len(simulations)

    def under_way(self, simulation: Simulation) -> bool:
        """Whether a leg of ``opening`` still sends messages or waits for answers."""
        return self._legs.under_way(simulation.request.simulation_id)

    def settle(self, simulation: Simulation, answer: Message) -> None:
        """Decides the failed row ``opening`` by ``answer``, which did not reach this network in time."""
        self._legs.settle(simulation, answer)

    async def stop(self) -> None:
        """Stops all wire legs and waits until what they did is recorded."""
        await self._legs.stop()
        await self._store.drain()

    # --- spends

    async def _spend(self, requests: Sequence[SpendRequest]) -> list[Simulation]:
        if not requests:
            return []
        cards = await self._cards.find_all([request.card_id for request in requests])
        serials = await self._store.take_stans(len(requests))
        prepared = [
            self._prepare(request, credentials, serial)
            for request, credentials, serial in zip(requests, cards, serials, strict=True)
        ]
        await self._store.open([spend.simulation for spend in prepared])
        for spend in prepared:
            if spend.message is not None:
                self._legs.start(spend.simulation, spend.message)
        return [spend.simulation for spend in prepared]

    def _prepare(
        self, request: SpendRequest, credentials: CardCredentials | None, serial: int
    ) -> _PreparedSpend:
        """Builds the message of one spend, or the reason why there is none."""
        stands_in = request.scenario == "force_stip_timeout"
        if request.amount_minor > WIRE_AMOUNT_MINOR_MAX:
            return self._refused(request, _AMOUNT_TOO_LARGE)
        if stands_in and (request.kind == "refund" or not request.amount_minor):
            return self._refused(request, _NOT_OFFERED)
        if credentials is None:
            return self._refused(request, _CARD_UNREADABLE)
        stan = wire_stan(serial)
        simulation = Simulation(
            request=request,
            stan=stan,
            rrn=rrn(stan, request.accepted_ms),
            network_txn_id=network_txn_id(serial),
        )
        try:
            message = message_of(simulation, credentials)
            encode(message)
        except (ElementError, EncodeError):
            return self._refused(request, _NOT_ENCODABLE)
        return _PreparedSpend(simulation, message)

    def _refused(self, request: SpendRequest, failure: Failure) -> _PreparedSpend:
        return _PreparedSpend(Simulation(request=request, failed_ms=self._clock.now_ms(), failure=failure))

    # --- follow-ups

    async def _follow(
        self, requests: Sequence[FollowUpRequest], *, automatic: bool = False
    ) -> tuple[list[Simulation], list[asyncio.Task[None]]]:
        if not requests:
            return [], []
        card_ids = [_card_id(request) for request in requests]
        cards = dict(zip(card_ids, await self._cards.find_all(card_ids), strict=True))
        serials = await self._store.take_stans(len(requests))
        follow_ups = [
            _draft(request, cards[_card_id(request)], serial)
            for request, serial in zip(requests, serials, strict=True)
        ]
        opened = await self._store.follow(follow_ups, automatic=automatic)
        legs = [
            self._say(each.simulation, credentials)
            for each in opened
            if each.fresh
            and each.simulation.failure is None
            and (credentials := cards[each.simulation.request.card_id]) is not None
        ]
        return [each.simulation for each in opened], [leg for leg in legs if leg is not None]

    def _say(self, simulation: Simulation, credentials: CardCredentials) -> asyncio.Task[None] | None:
        try:
            message = message_of(simulation, credentials)
            encode(message)
        except (ElementError, EncodeError):
            # What was said of the sale before could be encoded; only a force post gets here.
            failed_ms = self._clock.now_ms()
            simulation_id = simulation.request.simulation_id
            failure = msgspec.structs.replace(_NOT_ENCODABLE, stage="post_build")
            self._store.move(
                StateChange(simulation_id=simulation_id, state="failed", failed_ms=failed_ms, failure=failure)
            )
            return None
        return self._legs.start(simulation, message)


def _draft(request: FollowUpRequest, credentials: CardCredentials | None, serial: int) -> PreparedFollowUp:
    failure = _CARD_UNREADABLE if credentials is None else None
    if (request.amount_minor or 0) > WIRE_AMOUNT_MINOR_MAX:
        failure = _AMOUNT_TOO_LARGE
    stan = wire_stan(serial)
    life = (
        network_txn_id(serial) if isinstance(request, ForcePostRequest) else request.original.network_txn_id
    )
    return PreparedFollowUp(
        request=request,
        stan=stan,
        rrn=rrn(stan, request.accepted_ms),
        network_txn_id=life,
        failure=failure,
    )


def _card_id(request: FollowUpRequest) -> str:
    return request.card_id if isinstance(request, ForcePostRequest) else request.original.request.card_id


def _acceptance(simulation: Simulation) -> Acceptance:
    return Acceptance(
        simulation_id=simulation.request.simulation_id,
        accepted_ms=simulation.request.accepted_ms,
        stan=simulation.stan,
        rrn=simulation.rrn,
        network_txn_id=simulation.network_txn_id,
    )
