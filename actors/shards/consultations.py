"""Consultations of delegated programmes, between the arrival of an authorization and its decision.

A consultation asks the programme's endpoint. Without a usable answer, it asks the programme's owner for
exposure to stand in. Then the command is admitted again and decided on the card's current state;
consultations decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from actors.cards.activation import Activation
from actors.cards.card_actor import CardActor
from actors.clock import Clock
from actors.shards.pending import Pending
from engine.authorization import authorizing
from engine.authorization.executed import CommandContext
from engine.cards.card import declared_remaining
from engine.commands import Authorize, Evaluate
from engine.decision.amounts import stand_in_minor
from engine.decision.delegation import EndpointResult, Question
from engine.limits import CONSULTATIONS_MAX, STAND_IN_MARGIN_MS
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest, Trigger
from engine.replies import NotExecuted

_log = structlog.get_logger(__name__)


class ProgrammeCalls(Protocol):
    """Calls to a delegated programme. ``ask`` and ``grant`` never raise and return in time."""

    def ask(self, programme: Programme, question: Question, timeout_ms: int) -> Awaitable[EndpointResult]:
        """Ask the programme's endpoint once, within ``timeout_ms``."""

    def grant(self, programme_id: str, request: StandInRequest) -> Awaitable[Grant | None]:
        """Ask the programme's owner for exposure; ``None`` when the owner does not answer in time."""

    def preview(self, programme_id: str, request: StandInRequest) -> Awaitable[Grant | None]:
        """Ask the programme's owner for the grant that it would give now, without a reservation; ``None``
        when the owner does not answer in time."""

    def end_outage(self, programme: Programme) -> None:
        """End the outage in ``programme``, if any: the endpoint has given a usable answer."""


class Consultations:
    """The consultations of one host. ``admit`` admits a command again; ``refuse`` gives it a refusal."""

    def __init__(
        self,
        activation: Activation,
        programme_calls: ProgrammeCalls,
        clock: Clock,
        admit: Callable[[Pending], None],
        refuse: Callable[[Pending, NotExecuted], None],
    ) -> None:
        self._activation = activation
        self._programme_calls = programme_calls
        self._clock = clock
        self._admit = admit
        self._refuse = refuse
        self._tasks: dict[Pending, asyncio.Task[None]] = {}

    @property
    def open(self) -> int:
        """The number of open consultations."""
        return len(self._tasks)

    def start_if_needed(self, pending: Pending) -> bool:
        """Start a consultation if the programme must be asked before the decision; returns whether it must.
        The command is admitted again afterwards. Requires that the command's state is in memory."""
        command = pending.command
        if isinstance(command, Evaluate) and command.stand_in:
            command = command.request
        if (
            not isinstance(command, Authorize)
            or pending.endpoint_result is not None
            or pending.stored_approval is not None
        ):
            return False
        actor = self._activation.cards[command.card_id]
        programme = self._activation.snapshots[actor.card.programme_id]
        if programme.config.decisioning != "delegated":
            return False
        now_ms = self._clock.now_ms()
        original = actor.original(command, now_ms)
        rules = actor.rules_of(programme)
        past = self._activation.pasts.past_of(actor, rules)
        context = CommandContext(actor.card, actor.account, programme.config, original, None, rules, past)
        question = authorizing.question(command, context, now_ms)
        if question is not None:
            self._start(pending, programme, question)
        return question is not None

    def _start(self, pending: Pending, programme: Programme, question: Question) -> None:
        if self.open >= CONSULTATIONS_MAX:
            self._refuse(pending, NotExecuted("overloaded"))
            return
        pending.defer()
        consultation = self._consult(pending, programme, question)
        self._tasks[pending] = asyncio.get_running_loop().create_task(consultation)

    async def stop(self) -> None:
        """Cancel all consultations and refuse their commands, which were not executed."""
        tasks = dict(self._tasks)
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        self._tasks.clear()
        for pending in tasks:
            self._refuse(pending, NotExecuted("not_owner"))

    async def _consult(self, pending: Pending, programme: Programme, question: Question) -> None:
        try:
            pending.endpoint_result = await self._answer(pending, programme, question)
        except Exception as fault:  # noqa: BLE001 - our own fault must not approve: without a grant, decline
            _log.error("consultation_fault", error=type(fault).__name__)
            pending.endpoint_result = EndpointResult(trigger="connection_error")
        self._tasks.pop(pending, None)
        self._admit(pending)

    async def _answer(self, pending: Pending, programme: Programme, question: Question) -> EndpointResult:
        command = pending.command
        if isinstance(command, Evaluate):
            return await self._preview(command.request, programme)
        assert isinstance(command, Authorize), "only authorizations are delegated"
        remaining_ms = int((pending.deadline - self._clock.monotonic()) * 1000)
        timeout_ms = min(programme.config.decision_timeout_ms, remaining_ms - STAND_IN_MARGIN_MS)
        if command.endpoint_silent and not programme.config.live:
            await asyncio.sleep(max(0, timeout_ms) / 1000)
            result = EndpointResult(trigger="timeout")
        elif timeout_ms <= 0:
            result = EndpointResult(trigger="timeout")
        else:
            result = await self._programme_calls.ask(programme, question, timeout_ms)
        if result.decision is not None:
            self._programme_calls.end_outage(self._activation.snapshots.get(programme.config.id, programme))
            return result
        return EndpointResult(
            trigger=result.trigger, grant=await self._grant(command, programme, result.trigger)
        )

    async def _grant(self, command: Authorize, programme: Programme, trigger: Trigger | None) -> Grant | None:
        """Reserve exposure. Meanwhile the amount is pledged on the card's declared balance, so that two
        stand-ins of one card do not use the same money."""
        assert trigger is not None, "the programme gave no usable answer"
        actor = self._activation.cards.get(command.card_id)
        request = _stand_in_request(command, trigger, actor)
        if actor is None:
            return await self._programme_calls.grant(programme.config.id, request)
        actor.pledged_minor += request.amount_minor
        try:
            return await self._programme_calls.grant(programme.config.id, request)
        finally:
            actor.pledged_minor -= request.amount_minor

    async def _preview(self, command: Authorize, programme: Programme) -> EndpointResult:
        """The result of a call that times out, without the call, a reservation or a pledge."""
        request = _stand_in_request(command, "timeout", self._activation.cards.get(command.card_id))
        granted = await self._programme_calls.preview(programme.config.id, request)
        return EndpointResult(trigger="timeout", grant=granted)


def _stand_in_request(command: Authorize, trigger: Trigger, actor: CardActor | None) -> StandInRequest:
    """The request for exposure; amounts that pending stand-ins of the card have pledged are not available."""
    declared_minor = None if actor is None else declared_remaining(actor.card)
    pledged_minor = 0 if actor is None else actor.pledged_minor
    return StandInRequest(
        command.id,
        command.card_id,
        stand_in_minor(command),
        command.currency,
        command.mcc,
        trigger,
        None if declared_minor is None else max(0, declared_minor - pledged_minor),
    )
