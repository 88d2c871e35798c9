"""An authorization inside its card's owner: what it sees, whether its programme has to be asked, and what
follows from the decision.

``engine.decision.decide`` makes the decision; this module turns it into effects and events. An increment
raises the authorization that it names.
"""

from __future__ import annotations

import msgspec

from engine.authorization import gateway, instructions
from engine.authorization.effects import (
    AuthorizationOpened,
    BalanceDeclared,
    Counted,
    Cvv2Failed,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    IncrementSet,
    StoodIn,
)
from engine.authorization.events import authorization_events
from engine.authorization.executed import CommandContext, Executed, apply, lapse_due
from engine.authorization.lifecycle import given_up, raise_hold, settlement_of, transfer
from engine.cards.authorization import Authorization, OriginalView, view
from engine.cards.card import (
    Card,
    declared_remaining,
    is_given_up,
)
from engine.cards.hold import Hold
from engine.commands import (
    Authorize,
    reference_of_message,
    reference_of_network,
)
from engine.decision.decide import RULES, Decision, Inputs, authorize, counts_as_cvv2_failure, wants_answer
from engine.decision.delegation import Question
from engine.ids import Derived, derive
from engine.replies import WireAnswer


def observe(
    met: CommandContext, now_ms: int, lapsed: tuple[HoldLapsed, ...], command: Authorize | None = None
) -> Inputs:
    """What a decision about ``command`` at ``now_ms`` sees. Holds in ``lapsed`` have stopped counting
    already."""
    card, account, programme = met.card, met.account, met.programme
    seen = None if met.original is None else view(met.original, account)
    # By position, in the order of the fields: by name, so many take five times as long.
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
        seen if seen is not None and seen.open else None,
        programme.decisioning,
        met.consulted,
        declared_remaining(card),
        RULES,
        bool(card.tombstones) and command is not None and is_given_up(card, _names(command, seen), now_ms),
    )


def question(command: Authorize, met: CommandContext, now_ms: int) -> Question | None:
    """What a delegated programme is to be asked before ``command`` can be decided, if anything.

    Looks without touching: holds past their expiry no longer count, but nothing is changed.
    """
    if met.programme.decisioning != "delegated" or met.consulted is not None:
        return None
    inputs = observe(met, now_ms, (), command)
    expired = met.account.expired_holds(now_ms) if met.account is not None else ()
    if expired:
        held_minor = inputs.held_minor - sum(hold.amount_minor for hold in expired)
        inputs = msgspec.structs.replace(inputs, held_minor=held_minor)
    if not wants_answer(command, inputs):
        return None
    increment = inputs.original is not None and met.original is not None
    return Question(
        authorization_id=met.original.id if increment and met.original else command.id,
        operation="increment" if increment else "authorization",
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
    )


def execute_authorize(command: Authorize, met: CommandContext, now_ms: int) -> Executed:
    """Decide ``command`` on the card as it is at ``now_ms``, and let what follows happen."""
    lapsed = lapse_due(met, now_ms)
    inputs = observe(met, now_ms, lapsed, command)
    decision = authorize(command, inputs)
    increment = inputs.original is not None and met.original is not None
    effects = _raised(command, decision, inputs, met) if increment else opened(command, decision, inputs, met)
    about = met.original.id if increment and met.original else command.id
    effects += _stood_in(command, decision, met.card, about)
    apply(met, lapsed, effects)
    answer = WireAnswer(decision.response_code, about, decision.approval_code, decision.approved_minor)
    events = authorization_events(command, met.card, met.account, decision, effects, about, now_ms)
    if met.programme.mode == "gateway":
        events += instructions.of_decision(command, decision, effects, met.original, now_ms)
    return Executed(answer, True, (*lapsed, *effects), events, inputs, decision, about)


def _stood_in(command: Authorize, decision: Decision, card: Card, about: str) -> tuple[Effect, ...]:
    """The record of a decision made in stand-in, and what it consumes of the declared balance."""
    how = decision.stand_in
    if how is None:
        return ()
    record = StoodIn(
        derive(command.id, Derived.STAND_IN),
        about,
        how,
        decision.decision,
        command.amount_minor,
        command.currency,
        command.mcc,
        decision.response_code,
        command.wire.stan,
        command.wire.rrn,
    )
    if not how.exposure_minor or card.declared is None:
        return (record,)
    consumed_minor = card.declared.consumed_minor + how.exposure_minor
    return (record, BalanceDeclared(msgspec.structs.replace(card.declared, consumed_minor=consumed_minor)))


def _raised(
    command: Authorize, decision: Decision, inputs: Inputs, met: CommandContext
) -> tuple[Effect, ...]:
    """The effects of an increment; a declined one leaves its original as it was."""
    assert inputs.original is not None, "only increments have an original"
    assert met.original is not None, "only increments have an original"
    failed = (Cvv2Failed(decision.day),) if counts_as_cvv2_failure(inputs, decision) else ()
    name = reference_of_message(command.command_key)
    if decision.reason or not decision.approved_minor:
        return (*failed, IncrementSet(name, 0, decision.day, 0))
    if met.programme.mode == "gateway":
        return gateway.raised(command, decision, met.original, inputs.buried)
    if inputs.buried:
        given = given_up(decision, met.original, inputs.original)
        return (given, IncrementSet(name, 0, decision.day, 0))
    raised = raise_hold(command, decision, met.original, met.account, inputs.original)
    approved_minor = decision.approved_minor
    return (*raised, IncrementSet(name, approved_minor, decision.day, approved_minor))


def opened(command: Authorize, decision: Decision, inputs: Inputs, met: CommandContext) -> tuple[Effect, ...]:
    """The effects of a first decision: a function of what was asked, met and decided."""
    approved_minor = decision.approved_minor
    hold = _hold(command, decision)
    authorization = _authorization(command, decision, hold)
    buried = inputs.buried and approved_minor > 0
    relayed = met.programme.mode == "gateway"
    if buried or (inputs.buried and authorization.kind == "purchase"):
        # A sale that was declined and reversed is over as well: a later advice of the network holds nothing.
        authorization.reversed_minor, authorization.closed = approved_minor, "released"
    elif hold is not None or relayed:
        authorization.remainder_minor = approved_minor
    held_minor = authorization.remainder_minor if hold is not None else 0
    effects: list[Effect] = [AuthorizationOpened(authorization, held_minor)]
    if counts_as_cvv2_failure(inputs, decision):
        effects.append(Cvv2Failed(decision.day))
    if command.kind == "refund" and approved_minor and not buried and not relayed:
        effects.append(
            transfer(command.id, settlement_of(met.programme), "credit", approved_minor, command.id)
        )
    elif command.kind == "purchase" and approved_minor and not buried:
        effects.append(Counted(decision.day, approved_minor, 1))
    if hold is not None:
        effects.append(HoldPlaced(hold))
    if hold is not None and buried:
        effects.append(HoldClosed(hold.id, "released"))
    return tuple(effects)


def _names(command: Authorize, original: OriginalView | None) -> tuple[str, ...]:
    """The references under which an earlier reversal may have named it: an increment by its message alone."""
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
    )
