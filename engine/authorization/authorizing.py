"""An authorization request inside its card's owner: its inputs, the request to the programme, its effects.

``engine.decision.decide`` makes the decision; this module turns it into effects and events. An increment
raises the authorization that it names.
"""

from __future__ import annotations

import msgspec

from engine.authorization import gateway, instructions
from engine.authorization.effects import (
    AuthorizationOpened,
    BalanceDeclared,
    Cvv2Failed,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    IncrementSet,
    StandInRecorded,
    UsageCounted,
)
from engine.authorization.events import authorization_events
from engine.authorization.executed import CommandContext, Executed, apply, lapse_expired_holds
from engine.authorization.follow_up import settlement_account_id, transfer
from engine.authorization.increment import approve_and_reverse, raise_hold
from engine.cards.authorization import Authorization, OriginalView
from engine.cards.authorization_states import original_view
from engine.cards.card import Card, declared_remaining, is_reversed_or_replaced
from engine.cards.hold import Hold
from engine.commands import Authorize, reference_of_message, reference_of_network
from engine.decision.decide import Decision, authorize, counts_as_cvv2_failure, must_call_endpoint
from engine.decision.delegation import Question
from engine.decision.inputs import RULES, Inputs
from engine.ids import Derived, derive
from engine.replies import WireAnswer
from engine.rules.evaluate import in_force


def decision_inputs(
    context: CommandContext, now_ms: int, lapsed: tuple[HoldLapsed, ...], command: Authorize | None = None
) -> Inputs:
    """The inputs of a decision about ``command`` at ``now_ms``. Holds in ``lapsed`` are closed already."""
    card, account, programme = context.card, context.account, context.programme
    original = None if context.original is None else original_view(context.original, account)
    # By position, in the order of the fields: keyword arguments take five times as long.
    return Inputs(
        now_ms,
        card.seq,
        card.state,
        card.cardholder_active,
        card.network,
        card.currency,
        card.exp_year,
        card.exp_month,
        card.controls,
        card.day,
        card.day_count,
        card.day_amount_minor,
        card.cvv2_failures,
        programme.version,
        programme.status,
        programme.mode,
        programme.timezone,
        programme.hold_expiry_days,
        account.version if account else 0,
        account.posted_minor if account else None,
        account.held_minor if account else 0,
        tuple([each.hold_id for each in lapsed]) if lapsed else (),
        original if original is not None and original.open else None,
        programme.decisioning,
        context.endpoint_result,
        declared_remaining(card),
        RULES,
        bool(card.tombstones)
        and command is not None
        and is_reversed_or_replaced(card, _references(command, original), now_ms),
        in_force(context.rules, context.past, command, programme.timezone, now_ms, card.created_ms)
        if command is not None and context.rules.readers and command.kind == "purchase"
        else None,
    )


def present_inputs(context: CommandContext, now_ms: int, command: Authorize) -> Inputs:
    """The inputs of a decision about ``command`` that is not made.

    Changes nothing: expired holds are subtracted from the held amount and stay open.
    """
    inputs = decision_inputs(context, now_ms, (), command)
    expired = context.account.expired_holds(now_ms) if context.account is not None else ()
    if not expired:
        return inputs
    held_minor = inputs.held_minor - sum(hold.amount_minor for hold in expired)
    return msgspec.structs.replace(inputs, held_minor=held_minor)


def question(command: Authorize, context: CommandContext, now_ms: int) -> Question | None:
    """The request to the endpoint of a delegated programme that must precede the decision, or ``None``.
    Changes nothing."""
    if context.programme.decisioning != "delegated" or context.endpoint_result is not None:
        return None
    inputs = present_inputs(context, now_ms, command)
    if not must_call_endpoint(command, inputs, context.rules):
        return None
    raised = _raised(context, inputs)
    return Question(
        authorization_id=raised.id if raised else command.id,
        operation="increment" if raised else "authorization",
        card_id=command.card_id,
        amount_minor=command.amount_minor,
        currency=command.currency,
        partial_allowed=command.partial_allowed,
        mcc=command.mcc,
        merchant_name=command.merchant_name,
        merchant_country=command.merchant_country,
        channel=command.channel,
        entry_mode=command.entry_mode,
        mit=command.mit,
        merchant_amount=command.merchant_amount,
    )


def execute_authorize(command: Authorize, context: CommandContext, now_ms: int) -> Executed:
    """Decide ``command`` at ``now_ms``, and apply the effects of the decision."""
    lapsed = lapse_expired_holds(context, now_ms)
    inputs = decision_inputs(context, now_ms, lapsed, command)
    decision = authorize(command, inputs, context.rules)
    authorization_id, effects = decision_effects(command, decision, inputs, context)
    apply(context, lapsed, effects)
    answer = WireAnswer(
        decision.response_code,
        authorization_id,
        decision.approval_code,
        decision.approved_minor,
        reason=decision.reason,
    )
    events = authorization_events(
        command, context.card, context.account, decision, effects, authorization_id, now_ms
    )
    if context.programme.mode == "gateway":
        events += instructions.of_decision(command, decision, effects, context.original, now_ms)
    return Executed(answer, True, (*lapsed, *effects), events, inputs, decision, authorization_id)


def decision_effects(
    command: Authorize, decision: Decision, inputs: Inputs, context: CommandContext
) -> tuple[str, tuple[Effect, ...]]:
    """The id of the authorization that ``decision`` opens or raises, and the effects of the decision, which
    are not applied yet."""
    raised = _raised(context, inputs)
    if raised is not None:
        effects = _increment_effects(command, decision, inputs, context, raised)
    else:
        effects = opening_effects(command, decision, inputs, context)
    authorization_id = raised.id if raised is not None else command.id
    return authorization_id, effects + _stand_in_effects(command, decision, context.card, authorization_id)


def _raised(context: CommandContext, inputs: Inputs) -> Authorization | None:
    """The authorization that an increment raises; ``None`` if the request opens one of its own."""
    return context.original if inputs.original is not None else None


def _stand_in_effects(
    command: Authorize, decision: Decision, card: Card, authorization_id: str
) -> tuple[Effect, ...]:
    """The record of a stand-in, and the amount that it consumes of the declared balance."""
    stand_in = decision.stand_in
    if stand_in is None:
        return ()
    record = StandInRecorded(
        derive(command.id, Derived.STAND_IN),
        authorization_id,
        stand_in,
        decision.decision,
        command.amount_minor,
        command.currency,
        command.mcc,
        decision.response_code,
        command.wire.stan,
        command.wire.rrn,
    )
    if not stand_in.exposure_minor or card.declared is None:
        return (record,)
    consumed_minor = card.declared.consumed_minor + stand_in.exposure_minor
    return (record, BalanceDeclared(msgspec.structs.replace(card.declared, consumed_minor=consumed_minor)))


def _increment_effects(
    command: Authorize, decision: Decision, inputs: Inputs, context: CommandContext, raised: Authorization
) -> tuple[Effect, ...]:
    """The effects of an increment; a declined one leaves its authorization unchanged."""
    assert inputs.original is not None, "only increments have an original"
    failed = (Cvv2Failed(decision.day),) if counts_as_cvv2_failure(inputs, decision) else ()
    name = reference_of_message(command.command_key)
    if decision.reason or not decision.approved_minor:
        return (*failed, IncrementSet(name, 0, decision.day, 0))
    if context.programme.mode == "gateway":
        return gateway.increment(command, decision, raised, inputs.reversed_early)
    if inputs.reversed_early:
        update = approve_and_reverse(decision, raised, inputs.original)
        return (update, IncrementSet(name, 0, decision.day, 0))
    effects = raise_hold(command, decision, raised, context.account, inputs.original)
    approved_minor = decision.approved_minor
    return (*effects, IncrementSet(name, approved_minor, decision.day, approved_minor))


def opening_effects(
    command: Authorize, decision: Decision, inputs: Inputs, context: CommandContext
) -> tuple[Effect, ...]:
    """The effects of a decision that opens an authorization."""
    approved_minor = decision.approved_minor
    hold = _hold(command, decision)
    authorization = _authorization(command, decision, hold)
    void = inputs.reversed_early and approved_minor > 0
    gateway_mode = context.programme.mode == "gateway"
    if void or (inputs.reversed_early and authorization.kind == "purchase"):
        # A declined sale is closed too, so that a later advice of the network holds nothing.
        authorization.reversed_minor, authorization.closed = approved_minor, "released"
    elif hold is not None or gateway_mode:
        authorization.remainder_minor = approved_minor
    held_minor = authorization.remainder_minor if hold is not None else 0
    effects: list[Effect] = [AuthorizationOpened(authorization, held_minor)]
    if counts_as_cvv2_failure(inputs, decision):
        effects.append(Cvv2Failed(decision.day))
    if command.kind == "refund" and approved_minor and not void and not gateway_mode:
        settlement = settlement_account_id(context.programme)
        effects.append(transfer(command.id, settlement, "credit", approved_minor, command.id))
    elif command.kind == "purchase" and approved_minor and not void:
        effects.append(UsageCounted(decision.day, approved_minor, 1))
    if hold is not None:
        effects.append(HoldPlaced(hold))
    if hold is not None and void:
        effects.append(HoldClosed(hold.id, "released"))
    return tuple(effects)


def _references(command: Authorize, original: OriginalView | None) -> tuple[str, ...]:
    """The references under which an earlier reversal may have named ``command``; an increment is named by its
    message alone."""
    message = reference_of_message(command.command_key)
    network_txn_id = command.wire.network_txn_id
    if network_txn_id is None or (original is not None and original.open):
        return (message,)
    return (message, reference_of_network(network_txn_id))


def _hold(command: Authorize, decision: Decision) -> Hold | None:
    if decision.hold_expires_ms is None:
        return None
    hold_id = derive(command.id, Derived.HOLD)
    return Hold(hold_id, command.card_id, command.id, decision.approved_minor, decision.hold_expires_ms)


def _authorization(command: Authorize, decision: Decision, hold: Hold | None) -> Authorization:
    verification = command.amount_minor == 0 and command.kind == "purchase"
    return Authorization(
        id=command.id,
        card_id=command.card_id,
        kind="verification" if verification else command.kind,
        currency=command.currency,
        day=decision.day,
        command_key=command.command_key,
        network_txn_id=command.wire.network_txn_id,
        requested_minor=command.amount_minor,
        approved_minor=decision.approved_minor,
        hold_id=hold.id if hold else None,
        decline_reason=decision.reason,
        merchant_amount=command.merchant_amount,
    )
