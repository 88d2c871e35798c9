"""What happens between a delegated authorization's arrival and its decision: the programme is asked, and,
when it gives no usable answer, its owner is asked for exposure.

Everything here awaits and nothing decides: when both answers are in, the command is admitted again and
decided on the card as it is then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import structlog

from actors.cards.activation import Activation
from actors.clock import Clock
from actors.shards.pending import Pending
from engine.authorization import authorizing
from engine.authorization.executed import CommandContext
from engine.cards.card import declared_remaining
from engine.commands import Authorize
from engine.decision.amounts import stand_in_minor
from engine.decision.delegation import EndpointResult, Question
from engine.limits import CONSULTATIONS_MAX, STAND_IN_MARGIN_MS
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest, Trigger
from engine.replies import NotExecuted

_log = structlog.get_logger(__name__)


class Delegates(Protocol):
    """The outside world of a delegated decision. Neither question raises; both keep to their time."""

    def ask(self, programme: Programme, question: Question, timeout_ms: int) -> Awaitable[EndpointResult]:
        """Ask the programme's endpoint, once."""

    def grant(self, programme_id: str, ask: StandInRequest) -> Awaitable[Grant | None]:
        """Ask the programme's owner for exposure; ``None`` when it could not be asked in time."""

    def answered(self, programme: Programme) -> None:
        """A usable answer has come: the outage that ``programme`` knows of, if any, is to end."""


class Consulting:
    """The consultations of one host. ``resume`` admits a command again."""

    def __init__(
        self,
        activation: Activation,
        delegates: Delegates,
        clock: Clock,
        resume: Callable[[Pending], None],
        refuse: Callable[[Pending, NotExecuted], None],
    ) -> None:
        self._activation = activation
        self._delegates = delegates
        self._clock = clock
        self._resume = resume
        self._refuse = refuse
        self._under_way: dict[Pending, asyncio.Task[None]] = {}

    @property
    def open(self) -> int:
        """Consultations under way."""
        return len(self._under_way)

    def begins(self, pending: Pending) -> bool:
        """Whether the programme has to be asked before ``pending`` can be decided. If so it is being asked,
        and the command is admitted again afterwards. All that the command needs is in memory."""
        command = pending.command
        if (
            not isinstance(command, Authorize)
            or pending.consulted is not None
            or pending.repeated is not None
        ):
            return False
        actor = self._activation.cards[command.card_id]
        programme = self._activation.snapshots[actor.card.programme_id]
        if programme.config.decisioning != "delegated":
            return False
        now_ms = self._clock.now_ms()
        original = actor.original(command, now_ms)
        met = CommandContext(actor.card, actor.account, programme.config, original)
        question = authorizing.question(command, met, now_ms)
        if question is not None:
            self._begin(pending, programme, question)
        return question is not None

    def _begin(self, pending: Pending, programme: Programme, question: Question) -> None:
        if self.open >= CONSULTATIONS_MAX:
            self._refuse(pending, NotExecuted("overloaded"))
            return
        pending.defer()
        consultation = self._consult(pending, programme, question)
        self._under_way[pending] = asyncio.get_running_loop().create_task(consultation)

    async def stop(self) -> None:
        """Ask nothing any more; the commands were not executed."""
        under_way = dict(self._under_way)
        for task in under_way.values():
            task.cancel()
        await asyncio.gather(*under_way.values(), return_exceptions=True)
        self._under_way.clear()
        for pending in under_way:
            self._refuse(pending, NotExecuted("not_owner"))

    async def _consult(self, pending: Pending, programme: Programme, question: Question) -> None:
        try:
            pending.consulted = await self._answer(pending, programme, question)
        except Exception as fault:  # noqa: BLE001 - a fault of ours is no approval: the card's owner declines
            _log.error("consultation_fault", error=type(fault).__name__)
            pending.consulted = EndpointResult(trigger="connection_error")
        self._under_way.pop(pending, None)
        self._resume(pending)

    async def _answer(self, pending: Pending, programme: Programme, question: Question) -> EndpointResult:
        command = pending.command
        assert isinstance(command, Authorize), "only authorizations are delegated"
        remaining_ms = int((pending.deadline - self._clock.monotonic()) * 1000)
        timeout_ms = min(programme.config.decision_timeout_ms, remaining_ms - STAND_IN_MARGIN_MS)
        if command.endpoint_silent and not programme.config.live:
            await asyncio.sleep(max(0, timeout_ms) / 1000)
            consulted = EndpointResult(trigger="timeout")
        elif timeout_ms <= 0:
            consulted = EndpointResult(trigger="timeout")
        else:
            consulted = await self._delegates.ask(programme, question, timeout_ms)
        if consulted.decision is not None:
            self._delegates.answered(self._activation.snapshots.get(programme.config.id, programme))
            return consulted
        return EndpointResult(
            trigger=consulted.trigger, grant=await self._grant(command, programme, consulted.trigger)
        )

    async def _grant(self, command: Authorize, programme: Programme, trigger: Trigger | None) -> Grant | None:
        """Reserve exposure. Meanwhile the card's declared balance is pledged, so that stand-ins of one card
        do not all count on the same money."""
        assert trigger is not None, "asked in vain"
        actor = self._activation.cards.get(command.card_id)
        amount_minor = stand_in_minor(command)
        declared_minor = None if actor is None else declared_remaining(actor.card)
        pledged_minor = 0 if actor is None else actor.pledged_minor
        ask = StandInRequest(
            command.id,
            command.card_id,
            amount_minor,
            command.currency,
            command.mcc,
            trigger,
            None if declared_minor is None else max(0, declared_minor - pledged_minor),
        )
        if actor is None:
            return await self._delegates.grant(programme.config.id, ask)
        actor.pledged_minor += amount_minor
        try:
            return await self._delegates.grant(programme.config.id, ask)
        finally:
            actor.pledged_minor -= amount_minor
