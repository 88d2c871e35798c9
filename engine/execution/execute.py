"""Execute one command on one card: decide, apply the effects, and return effects, events and reply.

``execute`` is pure: its result depends only on its arguments, and it changes nothing but the state in them.
``actors.cards.rows`` turns its result into rows.
"""

from __future__ import annotations

import msgspec

from engine.authorization import gateway, instructions, late, network_decision
from engine.authorization.advice import advise, with_final_amount
from engine.authorization.authorizing import execute_authorize
from engine.authorization.effects import (
    AuthorizationOpened,
    BalanceDeclared,
    Effect,
    HoldLapsed,
)
from engine.authorization.events import follow_up_events
from engine.authorization.evolve import evolve
from engine.authorization.executed import NOT_FOUND, CommandContext, Executed, apply, lapse_expired_holds
from engine.authorization.follow_up import RULES, FollowUpRecord, FollowUpResult
from engine.authorization.presentment import present
from engine.authorization.reversal import reverse
from engine.cards.account import balance_view
from engine.cards.authorization import Authorization, open_hold
from engine.cards.card import (
    Card,
    DeclaredBalance,
    declared_balance_view,
)
from engine.commands import (
    Advise,
    Authorize,
    CardCommand,
    ChangeCard,
    ChangeCardRule,
    CreateCard,
    CreateCardRule,
    DeclareBalance,
    Evaluate,
    Expire,
    Load,
    Present,
    ReadBalance,
    ReadHeadroom,
    ReplaceCard,
    Reverse,
    ReverseTransfer,
    SetCardholderStatus,
    Transfer,
)
from engine.execution.changing_rules import change_card_rules
from engine.execution.dry_run import evaluate, read_headroom
from engine.execution.issuing import change, set_cardholder_status
from engine.execution.replacing import replace
from engine.execution.transfers import execute_transfer
from engine.instant import day_label
from engine.replies import Done, Problem, WireAnswer

_FOLLOW_UPS = (Reverse, Present, Advise)
_TRANSFERS = (Load, Transfer, ReverseTransfer)


def execute(command: CardCommand, context: CommandContext, now_ms: int) -> Executed:
    """Execute ``command`` on an existing card. The state changes at once and is *tentative* until the
    commit."""
    if isinstance(command, Authorize):
        return execute_authorize(command, context, now_ms)
    if isinstance(command, _FOLLOW_UPS):
        return _follow_up(command, context, now_ms)
    if isinstance(command, CreateCard):
        return Executed(Problem(409, "conflict", "A card with this id exists."))
    card = context.card
    if command.tenant_id is not None and (command.tenant_id, command.live) != (card.tenant_id, card.live):
        return Executed(NOT_FOUND)
    if isinstance(command, Expire):
        return _expire(command, context, now_ms)
    if isinstance(command, ChangeCard):
        return change(command, card)
    if isinstance(command, ReplaceCard):
        return replace(command, card, now_ms)
    if isinstance(command, SetCardholderStatus):
        return set_cardholder_status(command, card)
    if isinstance(command, CreateCardRule | ChangeCardRule):
        return change_card_rules(command, card, now_ms)
    if isinstance(command, DeclareBalance):
        return _declare_balance(command, card, now_ms)
    if isinstance(command, _TRANSFERS):
        return execute_transfer(command, context, now_ms)
    if isinstance(command, Evaluate):
        return evaluate(command, context, now_ms)
    if isinstance(command, ReadHeadroom):
        return read_headroom(command, context, now_ms)
    assert isinstance(command, ReadBalance)
    return Executed(Done(200, balance_view(context.account, card.id, card.currency, now_ms)))


class AppliedFollowUp(msgspec.Struct, frozen=True, gc=False):
    """A follow-up after its effects were applied."""

    command: Reverse | Present | Advise
    """The command, with the final amount of an advised increment."""
    result: FollowUpResult
    effects: tuple[Effect, ...]
    """All effects, those of lapsed holds first."""
    authorization_id: str | None
    held_before: bool
    """Whether the original had an open hold before."""


def apply_follow_up(
    command: Reverse | Present | Advise, context: CommandContext, now_ms: int
) -> AppliedFollowUp:
    """Apply the effects of a reversal, a presentment or an advice."""
    lapsed = lapse_expired_holds(context, now_ms)
    card, account, original = context.card, context.account, context.original
    if isinstance(command, Advise):
        command = with_final_amount(command, original)
    result = _follow_up_result(command, context, now_ms)
    if isinstance(command, Advise):
        result = network_decision.with_decision(command, original, result)
        result = late.with_network_approval_marks(command, card, original, result, now_ms)
    held_before = original is not None and open_hold(original, account) is not None
    apply(context, lapsed, result.effects)
    authorization_id = _authorization_id(command, result, original)
    return AppliedFollowUp(command, result, (*lapsed, *result.effects), authorization_id, held_before)


def _follow_up(command: Reverse | Present | Advise, context: CommandContext, now_ms: int) -> Executed:
    """Apply a follow-up, and publish its events."""
    applied = apply_follow_up(command, context, now_ms)
    card, account, original = context.card, context.account, context.original
    command, result, authorization_id = applied.command, applied.result, applied.authorization_id
    events = follow_up_events(command, card, account, result, authorization_id, applied.held_before, now_ms)
    if isinstance(command, Advise) and original is not None:
        events = network_decision.superseding_event(command, card, original, result) + events
    if context.programme.mode == "gateway":
        events += instructions.of_follow_up(command, result, original, now_ms)
    answer = WireAnswer(result.response_code, authorization_id or "")
    record = None if result.record is None else msgspec.structs.replace(result.record, rules=RULES)
    return Executed(answer, True, applied.effects, events, None, record, authorization_id)


def _follow_up_result(
    command: Reverse | Present | Advise, context: CommandContext, now_ms: int
) -> FollowUpResult:
    """The result by the rules of the programme's mode."""
    card, account, programme, original = context.card, context.account, context.programme, context.original
    if isinstance(command, Reverse):
        return reverse(command, card, original, account, programme, now_ms)
    day = max(card.day, day_label(now_ms, programme.timezone))
    if programme.mode == "gateway":
        if isinstance(command, Present):
            return gateway.present(command, card, original, day)
        return gateway.advise(command, card, original, day, now_ms)
    if isinstance(command, Present):
        return present(command, card, original, account, programme, day)
    return advise(command, card, original, account, programme, day, now_ms)


def _authorization_id(
    command: CardCommand, result: FollowUpResult, original: Authorization | None
) -> str | None:
    """The authorization that a follow-up opened, or else the one to which it refers."""
    for effect in result.effects:
        if type(effect) is AuthorizationOpened:
            return command.id
    return original.id if original else None


def _expire(command: Expire, context: CommandContext, now_ms: int) -> Executed:
    """Lapse one authorization's hold before its expiry, or all expired holds of the account."""
    if command.references and context.original is None:
        return Executed(Problem(404, "not-found", "There is no such authorization."))
    hold = open_hold(context.original, context.account) if context.original else None
    if command.references and hold is None:
        return Executed(Problem(409, "nothing-held", "The authorization holds nothing."))
    lapsed = lapse_expired_holds(context, now_ms)
    still_open = context.original is not None and open_hold(context.original, context.account) is not None
    effects = (HoldLapsed(hold.id, hold.authorization_id),) if hold is not None and still_open else ()
    apply(context, lapsed, effects)
    authorization_id = context.original.id if context.original else None
    reply = Done(200, {"authorization_id": authorization_id, "status": "lapsed"})
    record = FollowUpRecord("lapse", hold.amount_minor if hold else 0)
    return Executed(reply, bool(lapsed or effects), (*lapsed, *effects), (), None, record, authorization_id)


def _declare_balance(command: DeclareBalance, card: Card, now_ms: int) -> Executed:
    if command.currency != card.currency:
        return Executed(Problem(400, "currency-mismatch", "The balance is not in the currency of the card."))
    declared = DeclaredBalance(command.amount_minor, 0, now_ms)
    effects = (BalanceDeclared(declared),)
    evolve(card, None, None, effects)
    return Executed(Done(200, declared_balance_view(card.id, card.currency, declared)), True, effects)
