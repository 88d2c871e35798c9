"""Commands that issue a card, change it, or set its cardholder's status."""

from __future__ import annotations

from engine.authorization.effects import (
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardIssued,
    Effect,
)
from engine.authorization.events import card_event
from engine.authorization.evolve import evolve
from engine.authorization.executed import Executed
from engine.cards.account import Account
from engine.cards.card import (
    Card,
    DeclaredBalance,
    card_view,
    may_become,
)
from engine.commands import (
    ChangeCard,
    Continuation,
    CreateCard,
    SetCardholderStatus,
)
from engine.controls import in_precedence
from engine.replies import Done, Problem


def card_of(command: CreateCard, now_ms: int) -> Card:
    """The card that ``command`` issues at ``now_ms``."""
    continues = command.continues or Continuation(card_id="")
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
        rules=command.rules,
        cardholder_active=command.cardholder_active,
        created_ms=now_ms,
        day=continues.day,
        day_count=continues.day_count,
        day_amount_minor=continues.day_amount_minor,
        declared=_declared(continues),
        replaces=continues.card_id or None,
    )


def _declared(continues: Continuation) -> DeclaredBalance | None:
    if continues.declared_minor is None:
        return None
    return DeclaredBalance(continues.declared_minor, continues.consumed_minor, continues.declared_ms)


def issue(command: CreateCard, card: Card, account: Account | None) -> Executed:
    """Issue ``card`` (from ``card_of``); ``account`` is its funding account, which the command may have
    opened."""
    if command.account_id and not _account_fits(command, account):
        return Executed(Problem(404, "not-found", "There is no such funding account."))
    opened = command.account_id if command.opens_account else None
    if opened and account is not None:
        account.version += 1
    event = card_event(command, "card.created", card)
    effects: tuple[Effect, ...] = (CardIssued(card, opened),)
    if card.declared is not None:
        effects += (BalanceDeclared(card.declared),)
    return Executed(Done(201, card_view(card)), True, effects, (event,))


def _account_fits(command: CreateCard, account: Account | None) -> bool:
    return (
        account is not None
        and (account.tenant_id, account.live) == (command.tenant_id, command.live)
        and (account.programme_id, account.currency) == (command.programme_id, command.currency)
    )


def change(command: ChangeCard, card: Card) -> Executed:
    """Change the state or the controls of ``card``; a command that changes neither is not journaled."""
    state = command.state or card.state
    if not may_become(card, state):
        return Executed(
            Problem(409, "invalid-state-transition", f"A card that is {card.state} cannot become {state}.")
        )
    controls = card.controls if command.controls is None else in_precedence(command.controls)
    reason = command.state_reason if command.state else card.state_reason
    if (state, reason, controls) == (card.state, card.state_reason, card.controls):
        return Executed(Done(200, card_view(card)))
    effects = (CardChanged(state, reason, controls),)
    evolve(card, None, None, effects)
    event = card_event(command, "card.updated", card)
    return Executed(Done(200, card_view(card)), True, effects, (event,))


def set_cardholder_status(command: SetCardholderStatus, card: Card) -> Executed:
    """Set whether the cardholder of ``card`` is active.

    Journaled even if it changes nothing: after its answer, a delayed copy of the command cannot execute after
    a later command.
    """
    reply = Done(200, {"id": card.id, "cardholder_active": command.active})
    effects = (CardholderSet(command.active),)
    evolve(card, None, None, effects)
    return Executed(reply, True, effects)
