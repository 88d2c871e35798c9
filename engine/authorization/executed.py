"""The context and the result of a command on a card."""

from __future__ import annotations

import msgspec

from engine.authorization.effects import Effect, HoldLapsed
from engine.authorization.events import Event
from engine.authorization.evolve import evolve
from engine.authorization.follow_up import FollowUpRecord
from engine.cards.account import Account
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.commands import CreateCard
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import Inputs
from engine.programmes.programme import ProgrammeConfig
from engine.replies import Problem, Reply
from engine.rules.evaluate import NO_RULES, Past, RuleSet

NOT_FOUND = Problem(404, "not-found", "There is no such card.")


class CommandContext(msgspec.Struct, frozen=True, gc=False):
    """The state in which a command is executed. ``original`` is the authorization that a follow-up or an
    increment names, if the card has it."""

    card: Card
    account: Account | None
    programme: ProgrammeConfig
    original: Authorization | None = None
    endpoint_result: EndpointResult | None = None
    """The result of the call to a delegated programme's endpoint."""
    rules: RuleSet = NO_RULES
    """The authorization rules in force for the card."""
    past: Past | None = None
    """The past of the card and its account; needed if ``rules`` have velocities."""


class Executed(msgspec.Struct, frozen=True, gc=False):
    """The result of a command. It is written to the journal only if ``journaled``; a refusal changes
    nothing."""

    reply: Reply
    journaled: bool = False
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    inputs: Inputs | None = None
    outcome: Decision | FollowUpRecord | None = None
    """The explanation, which the journal keeps."""
    authorization_id: str | None = None
    """The transaction that the command opened or named."""
    issues: CreateCard | None = None
    """The card that its owner issues in the same commit."""


def lapse_expired_holds(context: CommandContext, now_ms: int) -> tuple[HoldLapsed, ...]:
    """Close the account's expired holds, before the command reads the balance."""
    expired = () if context.account is None else context.account.expired_holds(now_ms)
    if context.account is None or not expired:
        return ()
    lapsed = tuple(HoldLapsed(hold.id, hold.authorization_id) for hold in expired)
    evolve(context.card, context.account, None, lapsed)
    # One command is one version of the account, together with its lapsed holds: ``apply`` raises it.
    context.account.version -= 1
    return lapsed


def apply(context: CommandContext, lapsed: tuple[HoldLapsed, ...], effects: tuple[Effect, ...]) -> None:
    """Apply ``effects`` after ``lapsed``; together they are one version of the account."""
    version_before = context.account.version if context.account else 0
    evolve(context.card, context.account, context.original, effects)
    if lapsed and context.account is not None:
        context.account.version = version_before + 1
