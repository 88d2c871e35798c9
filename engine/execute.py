"""One command against one card: decide, apply, and say what is to be written and told.

``execute`` is the whole life of a command inside its owner and stays pure: it changes only the state
objects it is given, and everything it depends on is among its arguments. Its result becomes rows in
``actors.cards.rows``.
"""

from __future__ import annotations

import msgspec

from engine.account import Account, balance_view
from engine.card import Card, card_view, may_move
from engine.commands import Authorize, CardCommand, ChangeCard, CreateCard, Load, ReadBalance
from engine.controls import in_precedence
from engine.decide import Decision, Inputs, authorize, counts_as_cvv2_failure
from engine.effects import (
    CardChanged,
    CardIssued,
    Credited,
    Cvv2Failed,
    Effect,
    HoldLapsed,
    HoldPlaced,
    PurchaseCounted,
)
from engine.events import Event, authorization_decided, card_event, entry_posted, hold_created
from engine.evolve import evolve
from engine.hold import Hold
from engine.ids import Derived, derive
from engine.limits import AMOUNT_MINOR_MAX
from engine.money import format_minor
from engine.programme import ProgrammeConfig
from engine.replies import Answer, Done, Problem, Reply

NOT_FOUND = Problem(404, "not-found", "There is no such card.")


class Executed(msgspec.Struct, frozen=True):
    """The result of a command. Only one with ``journaled`` set is written; a refusal changes nothing."""

    reply: Reply
    journaled: bool = False
    effects: tuple[Effect, ...] = ()
    events: tuple[Event, ...] = ()
    inputs: Inputs | None = None
    decision: Decision | None = None


def execute(
    command: CardCommand, card: Card, account: Account | None, programme: ProgrammeConfig, now_ms: int
) -> Executed:
    """Execute ``command`` on an existing card; state moves on at once and is *tentative* until the commit."""
    if isinstance(command, Authorize):
        return _authorize(command, card, account, programme, now_ms)
    if isinstance(command, CreateCard):
        return Executed(Problem(409, "conflict", "A card with this id exists."))
    if command.tenant_id != card.tenant_id or command.live != card.live:
        return Executed(NOT_FOUND)
    if isinstance(command, ChangeCard):
        return _change(command, card)
    if isinstance(command, Load):
        return _load(command, card, account, now_ms)
    assert isinstance(command, ReadBalance)
    return Executed(Done(200, balance_view(account, card.id, card.currency, now_ms)))


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


def observe(
    card: Card, account: Account | None, programme: ProgrammeConfig, now_ms: int, lapsed: tuple[Hold, ...]
) -> Inputs:
    """What a decision at ``now_ms`` sees; holds in ``lapsed`` no longer count."""
    held_minor = account.held_minor - sum(hold.amount_minor for hold in lapsed) if account else 0
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
        held_minor=held_minor,
        lapsed_holds=tuple(hold.id for hold in lapsed),
    )


def _authorize(
    command: Authorize, card: Card, account: Account | None, programme: ProgrammeConfig, now_ms: int
) -> Executed:
    lapsed = account.expired_holds(now_ms) if account else ()
    inputs = observe(card, account, programme, now_ms, lapsed)
    decision = authorize(command, inputs)
    effects = consequences(command, decision, inputs, lapsed, programme.id)
    evolve(card, account, effects)
    answer = Answer(decision.response_code, command.id, decision.approval_code, decision.approved_minor)
    events = _authorization_events(command, card, account, decision, effects, now_ms)
    return Executed(answer, True, effects, events, inputs, decision)


def consequences(
    command: Authorize, decision: Decision, inputs: Inputs, lapsed: tuple[Hold, ...], programme_id: str
) -> tuple[Effect, ...]:
    """The effects of a decision, a function of what was asked, seen and decided."""
    effects: list[Effect] = [HoldLapsed(hold, derive(hold.id, Derived.HOLD)) for hold in lapsed]
    if counts_as_cvv2_failure(inputs, decision):
        effects.append(Cvv2Failed(decision.day))
    if decision.reason or not decision.approved_minor:
        return tuple(effects)
    if command.kind == "refund":
        effects.append(
            _credit(command.id, derive(programme_id, Derived.SETTLEMENT), decision.approved_minor, command.id)
        )
        return tuple(effects)
    effects.append(PurchaseCounted(decision.day, decision.approved_minor))
    if inputs.programme_mode == "managed" and decision.hold_expires_ms is not None:
        hold_id = derive(command.id, Derived.HOLD)
        effects.append(
            HoldPlaced(Hold(hold_id, command.card_id, decision.approved_minor, decision.hold_expires_ms))
        )
    return tuple(effects)


def _credit(root: str, from_account_id: str, amount_minor: int, authorization_id: str | None) -> Credited:
    return Credited(
        transfer_id=derive(root, Derived.TRANSFER),
        debit_entry_id=derive(root, Derived.ENTRY_DEBIT),
        credit_entry_id=derive(root, Derived.ENTRY_CREDIT),
        from_account_id=from_account_id,
        amount_minor=amount_minor,
        authorization_id=authorization_id,
    )


def _authorization_events(
    command: Authorize,
    card: Card,
    account: Account | None,
    decision: Decision,
    effects: tuple[Effect, ...],
    now_ms: int,
) -> tuple[Event, ...]:
    last = effects[-1] if effects else None
    if isinstance(last, HoldPlaced) and account is not None:
        decided = authorization_decided(command, card, decision, last.hold.id)
        return decided, hold_created(command, account, last.hold, now_ms)
    decided = authorization_decided(command, card, decision, None)
    if isinstance(last, Credited) and account is not None:
        posted = entry_posted(
            command.id, last.credit_entry_id, account, last.amount_minor, command.id, now_ms
        )
        return decided, posted
    return (decided,)


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
    evolve(card, None, effects)
    event = card_event(command.id, "card.updated", card)
    return Executed(Done(200, card_view(card)), True, effects, (event,))


def _load(command: Load, card: Card, account: Account | None, now_ms: int) -> Executed:
    if account is None:
        return Executed(Problem(409, "card-not-funded", "The card has no funding account."))
    if command.currency != account.currency:
        return Executed(
            Problem(400, "currency-mismatch", "The amount is not in the currency of the card's account.")
        )
    if account.posted_minor + command.amount_minor > AMOUNT_MINOR_MAX:
        return Executed(Problem(409, "balance-limit-exceeded", "The balance would exceed what can be kept."))
    lapsed = account.expired_holds(now_ms)
    credit = _credit(
        command.id, derive(card.programme_id, Derived.FUNDING_SOURCE), command.amount_minor, None
    )
    effects: tuple[Effect, ...] = (
        *(HoldLapsed(hold, derive(hold.id, Derived.HOLD)) for hold in lapsed),
        credit,
    )
    evolve(card, account, effects)
    event = entry_posted(command.id, credit.credit_entry_id, account, command.amount_minor, None, now_ms)
    body = {
        "entry_id": credit.credit_entry_id,
        "account_id": account.id,
        "amount": {"amount": format_minor(command.amount_minor), "currency": account.currency},
        "available": format_minor(account.posted_minor - account.held_minor),
    }
    return Executed(Done(201, body), True, effects, (event,))
