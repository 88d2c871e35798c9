"""One command against one card: decide, apply, and say what is to be written and told.

``execute`` is the whole life of a command inside its owner and stays pure: it changes only the state
objects it is given, and everything it depends on is among its arguments. Its result becomes rows in
``actors.cards.rows``.
"""

from __future__ import annotations

import msgspec

from engine import gateway, instructions
from engine.account import Account, balance_view
from engine.authorization import Authorization, names, open_hold, view
from engine.card import (
    Card,
    DeclaredBalance,
    card_view,
    declared_balance_view,
    declared_remaining,
    may_move,
)
from engine.commands import (
    Advise,
    Authorize,
    CardCommand,
    ChangeCard,
    CreateCard,
    DeclareBalance,
    Expire,
    Load,
    Present,
    ReadBalance,
    Reverse,
    SetCardholderStatus,
    reference_of_message,
)
from engine.controls import in_precedence
from engine.decide import Decision, Inputs, authorize, counts_as_cvv2_failure, wants_answer
from engine.delegation import Consulted, Question
from engine.effects import (
    AuthorizationOpened,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    Counted,
    Cvv2Failed,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    IncrementSet,
    StoodIn,
)
from engine.events import Event, authorization_events, card_event, follow_up_events, load_posted
from engine.evolve import evolve
from engine.hold import Hold
from engine.ids import Derived, derive
from engine.instant import day_label
from engine.lifecycle import FollowUp, Record, advise, given_up, present, raise_hold, settlement_of, transfer
from engine.limits import AMOUNT_MINOR_MAX
from engine.money import format_minor
from engine.programme import ProgrammeConfig
from engine.replies import Answer, Done, Problem, Reply
from engine.reversal import reverse

_FOLLOW_UPS = (Reverse, Present, Advise)
NOT_FOUND = Problem(404, "not-found", "There is no such card.")


class Surroundings(msgspec.Struct, frozen=True):
    """What a command meets: the card, its funding account if it has one, its programme, and the
    authorization that a follow-up refers to, if there is one."""

    card: Card
    account: Account | None
    programme: ProgrammeConfig
    original: Authorization | None = None
    consulted: Consulted | None = None
    """What came of asking a delegated programme."""


class Executed(msgspec.Struct, frozen=True):
    """The result of a command. Only one with ``journaled`` set is written; a refusal changes nothing."""

    reply: Reply
    journaled: bool = False
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    inputs: Inputs | None = None
    outcome: Decision | Record | None = None
    """What the journal keeps as the explanation."""
    authorization_id: str | None = None
    """The transaction that the command was about."""


def execute(command: CardCommand, met: Surroundings, now_ms: int) -> Executed:
    """Execute ``command`` on an existing card; state moves on at once and is *tentative* until the commit."""
    if isinstance(command, Authorize):
        return _authorize(command, met, now_ms)
    if isinstance(command, _FOLLOW_UPS):
        return _follow_up(command, met, now_ms)
    if isinstance(command, CreateCard):
        return Executed(Problem(409, "conflict", "A card with this id exists."))
    card = met.card
    if command.tenant_id is not None and (command.tenant_id, command.live) != (card.tenant_id, card.live):
        return Executed(NOT_FOUND)
    if isinstance(command, Expire):
        return _expire(command, met, now_ms)
    if isinstance(command, ChangeCard):
        return _change(command, card)
    if isinstance(command, SetCardholderStatus):
        return _set_cardholder_status(command, card)
    if isinstance(command, DeclareBalance):
        return _declare_balance(command, card, now_ms)
    if isinstance(command, Load):
        return _load(command, met, now_ms)
    assert isinstance(command, ReadBalance)
    return Executed(Done(200, balance_view(met.account, card.id, card.currency, now_ms)))


def card_of(command: CreateCard, now_ms: int) -> Card:
    """The card that ``command`` issues at ``now_ms``."""
    return Card(
        id=command.id,
        tenant_id=command.tenant_id,
        live=command.live,
        programme_id=command.programme_id,
        card_product_id=command.card_product_id,
        cardholder_id=command.cardholder_id,
        account_id=command.account_id,
        network=command.network,
        currency=command.currency,
        iin=command.iin,
        last4=command.last4,
        pan_ref=command.pan_ref,
        exp_month=command.exp_month,
        exp_year=command.exp_year,
        cvk_generation=command.cvk_generation,
        state=command.state,
        controls=in_precedence(command.controls),
        created_ms=now_ms,
    )


def issue(command: CreateCard, card: Card, account: Account | None) -> Executed:
    """Issue ``card``, made by ``card_of``; ``account`` is its funding account, possibly opened with it."""
    if command.account_id and not _account_fits(command, account):
        return Executed(Problem(404, "not-found", "There is no such funding account."))
    opened = command.account_id if command.opens_account else None
    if opened and account is not None:
        account.version += 1
    event = card_event(command.id, "card.created", card)
    return Executed(Done(201, card_view(card)), True, (CardIssued(card, opened),), (event,))


def _account_fits(command: CreateCard, account: Account | None) -> bool:
    return (
        account is not None
        and (account.tenant_id, account.live) == (command.tenant_id, command.live)
        and (account.programme_id, account.currency) == (command.programme_id, command.currency)
    )


def observe(met: Surroundings, now_ms: int, lapsed: tuple[HoldLapsed, ...]) -> Inputs:
    """What a decision at ``now_ms`` sees. Holds in ``lapsed`` have stopped counting already."""
    card, account, programme = met.card, met.account, met.programme
    seen = None if met.original is None else view(met.original, account)
    return Inputs(
        now_ms=now_ms,
        card_seq=card.seq,
        card_state=card.state,
        cardholder_active=card.cardholder_active,
        network=card.network,
        card_currency=card.currency,
        exp_year=card.exp_year,
        exp_month=card.exp_month,
        controls=card.controls,
        day=card.day,
        day_count=card.day_count,
        day_amount_minor=card.day_amount_minor,
        cvv2_failures=card.cvv2_failures,
        programme_version=programme.version,
        programme_status=programme.status,
        programme_mode=programme.mode,
        timezone=programme.timezone,
        hold_expiry_days=programme.hold_expiry_days,
        account_version=account.version if account else 0,
        posted_minor=account.posted_minor if account else None,
        held_minor=account.held_minor if account else 0,
        lapsed_holds=tuple(each.hold_id for each in lapsed),
        original=seen if seen is not None and seen.open else None,
        decisioning=programme.decisioning,
        consulted=met.consulted,
        declared_remaining_minor=declared_remaining(card),
    )


def question(command: Authorize, met: Surroundings, now_ms: int) -> Question | None:
    """What a delegated programme is to be asked before ``command`` can be decided, if anything.

    Looks without touching: holds past their expiry no longer count, but nothing is changed.
    """
    if met.programme.decisioning != "delegated" or met.consulted is not None:
        return None
    inputs = observe(met, now_ms, ())
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


def _lapse_due(met: Surroundings, now_ms: int) -> tuple[HoldLapsed, ...]:
    """End the account's holds that are past their expiry, before anything is decided on its balance."""
    if met.account is None:
        return ()
    lapsed = tuple(HoldLapsed(hold.id, hold.authorization_id) for hold in met.account.expired_holds(now_ms))
    if lapsed:
        evolve(met.card, met.account, None, lapsed)
        # The command itself moves the version: one command is one version, lapses and all.
        met.account.version -= 1
    return lapsed


def _authorize(command: Authorize, met: Surroundings, now_ms: int) -> Executed:
    lapsed = _lapse_due(met, now_ms)
    inputs = observe(met, now_ms, lapsed)
    decision = authorize(command, inputs)
    increment = inputs.original is not None and met.original is not None
    effects = _raised(command, decision, inputs, met) if increment else opened(command, decision, inputs, met)
    about = met.original.id if increment and met.original else command.id
    effects += _stood_in(command, decision, met.card, about)
    _apply(met, lapsed, effects)
    answer = Answer(decision.response_code, about, decision.approval_code, decision.approved_minor)
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


def _apply(met: Surroundings, lapsed: tuple[HoldLapsed, ...], effects: tuple[Effect, ...]) -> None:
    """Apply ``effects`` after ``lapsed``: together they are one step of the account."""
    version_before = met.account.version if met.account else 0
    evolve(met.card, met.account, met.original, effects)
    if lapsed and met.account is not None:
        met.account.version = version_before + 1


def _raised(command: Authorize, decision: Decision, inputs: Inputs, met: Surroundings) -> tuple[Effect, ...]:
    """The effects of an increment; a declined one leaves its original as it was."""
    assert inputs.original is not None, "only increments have an original"
    assert met.original is not None, "only increments have an original"
    failed = (Cvv2Failed(decision.day),) if counts_as_cvv2_failure(inputs, decision) else ()
    name = reference_of_message(command.command_key)
    if decision.reason or not decision.approved_minor:
        return (*failed, IncrementSet(name, 0))
    if met.programme.mode == "gateway":
        return gateway.raised(command, decision, met.original, name in met.card.tombstones)
    if name in met.card.tombstones:
        return (given_up(decision, met.original, inputs.original), IncrementSet(name, 0))
    raised = raise_hold(command, decision, met.original, met.account, inputs.original)
    return (*raised, IncrementSet(name, decision.approved_minor))


def opened(command: Authorize, decision: Decision, inputs: Inputs, met: Surroundings) -> tuple[Effect, ...]:
    """The effects of a first decision: a function of what was asked, met and decided."""
    approved_minor = decision.approved_minor
    hold = _hold(command, decision)
    authorization = _authorization(command, decision, hold)
    buried = approved_minor > 0 and _is_buried(authorization, met.card)
    relayed = met.programme.mode == "gateway"
    if buried:
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


def _is_buried(authorization: Authorization, card: Card) -> bool:
    """Whether it was reversed before it came."""
    return bool(card.tombstones) and not card.tombstones.isdisjoint(names(authorization))


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


def _follow_up(command: Reverse | Present | Advise, met: Surroundings, now_ms: int) -> Executed:
    """Something that has happened in the world: it is applied, not judged."""
    lapsed = _lapse_due(met, now_ms)
    card, account, original = met.card, met.account, met.original
    outcome = _outcome(command, met, now_ms)
    held_before = original is not None and open_hold(original, account) is not None
    _apply(met, lapsed, outcome.effects)
    about = _about(command, outcome, original)
    events = follow_up_events(command, card, account, outcome, about, held_before, now_ms)
    if met.programme.mode == "gateway":
        events += instructions.of_follow_up(command, outcome, original, now_ms)
    answer = Answer(outcome.response_code, about or "")
    return Executed(answer, True, (*lapsed, *outcome.effects), events, None, outcome.record, about)


def _outcome(command: Reverse | Present | Advise, met: Surroundings, now_ms: int) -> FollowUp:
    """What follows from ``command``, here or in the programme's own ledger."""
    card, account, programme, original = met.card, met.account, met.programme, met.original
    if isinstance(command, Reverse):
        return reverse(command, original, account, programme)
    day = max(card.day, day_label(now_ms, programme.timezone))
    if programme.mode == "gateway":
        if isinstance(command, Present):
            return gateway.present(command, card, original, day)
        return gateway.advise(command, card, original, day)
    if isinstance(command, Present):
        return present(command, card, original, account, programme, day)
    return advise(command, card, original, account, programme, day, now_ms)


def _about(command: CardCommand, outcome: FollowUp, original: Authorization | None) -> str | None:
    """The transaction that a follow-up opened or moved, or looked at in vain."""
    if any(isinstance(effect, AuthorizationOpened) for effect in outcome.effects):
        return command.id
    return original.id if original else None


def _expire(command: Expire, met: Surroundings, now_ms: int) -> Executed:
    """Let one authorization's hold lapse before its time, or whatever is due."""
    if command.references and met.original is None:
        return Executed(Problem(404, "not-found", "There is no such authorization."))
    hold = open_hold(met.original, met.account) if met.original else None
    if command.references and hold is None:
        return Executed(Problem(409, "nothing-held", "The authorization holds nothing."))
    lapsed = _lapse_due(met, now_ms)
    still_open = met.original is not None and open_hold(met.original, met.account) is not None
    effects = (HoldLapsed(hold.id, hold.authorization_id),) if hold is not None and still_open else ()
    _apply(met, lapsed, effects)
    about = met.original.id if met.original else None
    reply = Done(200, {"authorization_id": about, "status": "lapsed"})
    record = Record("lapse", hold.amount_minor if hold else 0)
    return Executed(reply, bool(lapsed or effects), (*lapsed, *effects), (), None, record, about)


def _change(command: ChangeCard, card: Card) -> Executed:
    state = command.state or card.state
    if not may_move(card, state):
        return Executed(
            Problem(409, "invalid-state-transition", f"A card that is {card.state} cannot become {state}.")
        )
    controls = card.controls if command.controls is None else in_precedence(command.controls)
    reason = command.state_reason if command.state else card.state_reason
    if (state, reason, controls) == (card.state, card.state_reason, card.controls):
        return Executed(Done(200, card_view(card)))
    effects = (CardChanged(state, reason, controls),)
    evolve(card, None, None, effects)
    event = card_event(command.id, "card.updated", card)
    return Executed(Done(200, card_view(card)), True, effects, (event,))


def _set_cardholder_status(command: SetCardholderStatus, card: Card) -> Executed:
    reply = Done(200, {"id": card.id, "cardholder_active": command.active})
    if card.cardholder_active == command.active:
        return Executed(reply)
    effects = (CardholderSet(command.active),)
    evolve(card, None, None, effects)
    return Executed(reply, True, effects)


def _declare_balance(command: DeclareBalance, card: Card, now_ms: int) -> Executed:
    if command.currency != card.currency:
        return Executed(Problem(400, "currency-mismatch", "The balance is not in the currency of the card."))
    declared = DeclaredBalance(command.amount_minor, 0, now_ms)
    effects = (BalanceDeclared(declared),)
    evolve(card, None, None, effects)
    return Executed(Done(200, declared_balance_view(card.id, card.currency, declared)), True, effects)


def _load(command: Load, met: Surroundings, now_ms: int) -> Executed:
    account = met.account
    if account is None:
        return Executed(Problem(409, "card-not-funded", "The card has no funding account."))
    if command.currency != account.currency:
        return Executed(
            Problem(400, "currency-mismatch", "The amount is not in the currency of the card's account.")
        )
    if account.posted_minor + command.amount_minor > AMOUNT_MINOR_MAX:
        return Executed(Problem(409, "balance-limit-exceeded", "The balance would exceed what can be kept."))
    lapsed = _lapse_due(met, now_ms)
    source = derive(met.programme.id, Derived.FUNDING_SOURCE)
    credit = transfer(command.id, source, "credit", command.amount_minor, None)
    _apply(met, lapsed, (credit,))
    event = load_posted(command, account, credit, now_ms)
    body = {
        "entry_id": credit.credit_entry_id,
        "account_id": account.id,
        "amount": {"amount": format_minor(command.amount_minor), "currency": account.currency},
        "available": format_minor(account.posted_minor - account.held_minor),
    }
    return Executed(Done(201, body), True, (*lapsed, credit), (event,))
