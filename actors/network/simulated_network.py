"""The simulated network: terminal, acquirer and scheme of test mode. It uses the protocol of real networks.

``accept`` stores simulations and returns; their message flows run in the background. After a crash of this
process, simulations with an open request stay ``accepted`` or ``sent``, because the request may or may not
have reached the platform, and requests are not repeated. Reversals and presentments are stored and forwarded:
``resume`` repeats them, and a repeat has no second effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec

from actors.clock import Clock, SystemClock
from actors.ids import new_id_beside
from actors.network.cards import CardCredentials, CardsById
from actors.network.message_flows import MessageFlows, MessageTransport
from actors.network.messages import message_of, network_txn_id, rrn, wire_stan
from actors.network.simulation_store import (
    ACTIVE,
    Failure,
    PreparedFollowUp,
    Simulation,
    SimulationStore,
    StateChange,
)
from engine.iso8583.codec import EncodeError
from engine.iso8583.elements import ElementError
from engine.iso8583.message import Message, as_repeat
from engine.iso8583.profile import Profile
from engine.iso8583.profiles import ISO87_ASCII
from engine.limits import NETWORK_LATE_SECONDS, NETWORK_TIMEOUT_MS, WIRE_AMOUNT_MINOR_MAX
from engine.simulation import (
    Acceptance,
    ClearingRequest,
    FollowUpRequest,
    ForcePostRequest,
    Original,
    SimulationRequest,
    SpendOutcome,
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
    """A spend that will be stored; without a ``message`` if it failed before one was built."""

    simulation: Simulation
    message: Message | None = None


class SimulatedNetwork:
    """Accepts simulations and runs their message flows. ``stop`` is safe to call twice."""

    def __init__(
        self,
        transport: MessageTransport,
        store: SimulationStore,
        cards: CardsById,
        *,
        profile: Profile = ISO87_ASCII,
        clock: Clock | None = None,
        timeout_ms: int = NETWORK_TIMEOUT_MS,
        late_seconds: float = NETWORK_LATE_SECONDS,
    ) -> None:
        """``profile``: that of ``transport``. It decides which values a message can carry."""
        self._transport = transport
        self._profile = profile
        self._store = store
        self._cards = cards
        self._clock = clock or SystemClock()
        self._flows = MessageFlows(transport, store, self._clock, timeout_ms / 1000, late_seconds)

    async def accept(self, requests: Sequence[SimulationRequest]) -> list[Acceptance]:
        """Store ``requests`` and start their message flows. Returns the acceptances in the same order.

        Raises ``DatabaseUnavailableError``; then no message of the kind that could not be stored (spends,
        follow-ups) was sent. A follow-up whose id was accepted before is not sent again: it gets its first
        acceptance.
        """
        spends = [request for request in requests if isinstance(request, SpendRequest)]
        follow_ups = [request for request in requests if not isinstance(request, SpendRequest)]
        simulations = [*await self._start_spends(spends), *(await self._start_follow_ups(follow_ups))[0]]
        acceptances = {
            simulation.request.simulation_id: _acceptance(simulation) for simulation in simulations
        }
        return [acceptances[request.simulation_id] for request in requests]

    async def spend(self, requests: Sequence[SpendRequest]) -> list[SpendOutcome]:
        """Like ``accept``, for spends whose caller has not checked the card. Spends on cards that are not
        active are not stored."""
        prepared = await self._prepare_all(requests)
        states = await self._store.insert_active([spend.simulation for spend in prepared])
        outcomes = []
        for request, spend in zip(requests, prepared, strict=True):
            state = states.get(request.simulation_id)
            if state == ACTIVE:
                self._send(spend)
                outcomes.append(SpendOutcome(acceptance=_acceptance(spend.simulation)))
            else:
                outcomes.append(SpendOutcome(card_state=state))
        return outcomes

    async def clear(self, originals: Sequence[Original]) -> list[asyncio.Task[None]]:
        """Present the open amounts of these sales, as automatic clearing. Returns the tasks of the flows."""
        now_ms = self._clock.now_ms()
        requests = [
            ClearingRequest(
                simulation_id=new_id_beside(original.request.card_id), accepted_ms=now_ms, original=original
            )
            for original in originals
        ]
        return (await self._start_follow_ups(requests, automatic=True))[1]

    async def resume(self) -> int:
        """Repeat reversals and presentments that an earlier process left without an answer. Returns their
        number. Raises ``DatabaseUnavailableError``."""
        simulations = await self._store.unanswered()
        cards = await self._cards.find_all([simulation.request.card_id for simulation in simulations])
        for simulation, credentials in zip(simulations, cards, strict=True):
            if credentials is not None:
                self._flows.start(simulation, as_repeat(message_of(simulation, credentials)))
        return len(simulations)

    def is_active(self, simulation: Simulation) -> bool:
        """Whether the flow of ``simulation`` still sends messages or waits for answers."""
        return self._flows.is_active(simulation.request.simulation_id)

    def record_outcome(self, simulation: Simulation, answer: Message) -> None:
        """Decide a failed simulation by ``answer``, which did not reach the network in time."""
        self._flows.record_outcome(simulation, answer)

    async def stop(self) -> None:
        """Cancel all message flows and write their recorded state changes."""
        await self._flows.stop()
        await self._store.drain()

    # --- spends

    async def _start_spends(self, requests: Sequence[SpendRequest]) -> list[Simulation]:
        if not requests:
            return []
        prepared = await self._prepare_all(requests)
        await self._store.insert([spend.simulation for spend in prepared])
        for spend in prepared:
            self._send(spend)
        return [spend.simulation for spend in prepared]

    async def _prepare_all(self, requests: Sequence[SpendRequest]) -> list[_PreparedSpend]:
        cards = await self._cards.find_all([request.card_id for request in requests])
        serials = await self._store.take_stans(len(requests))
        return [
            self._prepare(request, credentials, serial)
            for request, credentials, serial in zip(requests, cards, serials, strict=True)
        ]

    def _send(self, spend: _PreparedSpend) -> None:
        if spend.message is not None:
            self._flows.start(spend.simulation, spend.message)

    def _prepare(
        self, request: SpendRequest, credentials: CardCredentials | None, serial: int
    ) -> _PreparedSpend:
        """Build the message of a spend, or the failure."""
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
            self._profile.encode(self._profile.own_request(message, self._clock.now_ms()))
        except (ElementError, EncodeError):
            return self._refused(request, _NOT_ENCODABLE)
        return _PreparedSpend(simulation, message)

    def _refused(self, request: SpendRequest, failure: Failure) -> _PreparedSpend:
        return _PreparedSpend(Simulation(request=request, failed_ms=self._clock.now_ms(), failure=failure))

    # --- follow-ups

    async def _start_follow_ups(
        self, requests: Sequence[FollowUpRequest], *, automatic: bool = False
    ) -> tuple[list[Simulation], list[asyncio.Task[None]]]:
        if not requests:
            return [], []
        card_ids = [_card_id(request) for request in requests]
        cards = dict(zip(card_ids, await self._cards.find_all(card_ids), strict=True))
        serials = await self._store.take_stans(len(requests))
        follow_ups = [
            _prepared(request, cards[_card_id(request)], serial)
            for request, serial in zip(requests, serials, strict=True)
        ]
        recorded = await self._store.insert_follow_ups(follow_ups, automatic=automatic)
        flows = [
            self._start_flow(each.simulation, credentials)
            for each in recorded
            if each.is_new
            and each.simulation.failure is None
            and (credentials := cards[each.simulation.request.card_id]) is not None
        ]
        return [each.simulation for each in recorded], [flow for flow in flows if flow is not None]

    def _start_flow(self, simulation: Simulation, credentials: CardCredentials) -> asyncio.Task[None] | None:
        try:
            message = message_of(simulation, credentials)
            self._profile.encode(self._profile.own_request(message, self._clock.now_ms()))
        except (ElementError, EncodeError):
            # Only a force post: the values of other follow-ups were in the message of their sale.
            failed_ms = self._clock.now_ms()
            simulation_id = simulation.request.simulation_id
            failure = msgspec.structs.replace(_NOT_ENCODABLE, stage="post_build")
            self._store.record(
                StateChange(simulation_id=simulation_id, state="failed", failed_ms=failed_ms, failure=failure)
            )
            return None
        return self._flows.start(simulation, message)


def _prepared(request: FollowUpRequest, credentials: CardCredentials | None, serial: int) -> PreparedFollowUp:
    failure = _CARD_UNREADABLE if credentials is None else None
    if (request.amount_minor or 0) > WIRE_AMOUNT_MINOR_MAX:
        failure = _AMOUNT_TOO_LARGE
    stan = wire_stan(serial)
    transaction = (
        network_txn_id(serial) if isinstance(request, ForcePostRequest) else request.original.network_txn_id
    )
    return PreparedFollowUp(
        request=request,
        stan=stan,
        rrn=rrn(stan, request.accepted_ms),
        network_txn_id=transaction,
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
