"""Replace a card: the old one ends, and the new one continues its account, controls, rules, counters and
declared balance.

Both changes are in one commit, so no instant exists at which both cards can spend, or at which the counters
of the day start again.
"""

from __future__ import annotations

from typing import Literal, cast

import msgspec

from engine.authorization.effects import CardChanged, CardReplaced, Effect, RulesChanged
from engine.authorization.events import replacement_events
from engine.authorization.evolve import evolve
from engine.authorization.executed import Executed
from engine.cards.card import END_STATES, Card, card_view, may_become
from engine.commands import Continuation, CreateCard, ReplaceCard
from engine.execution.issuing import card_of
from engine.ids import Derived, derive, key_of
from engine.replies import Done, Problem

ALREADY_REPLACED = Problem(409, "card-already-replaced", "The card has a replacement; replace that one.")


def replace(command: ReplaceCard, card: Card, now_ms: int) -> Executed:
    """End ``card``, and have its owner issue the replacement (``Executed.issues``). The reply shows the
    replacement."""
    state = END_STATES[command.reason]
    if card.replaced_by is not None:
        return Executed(ALREADY_REPLACED)
    if not may_become(card, state):
        detail = f"A card that is {card.state} cannot be replaced as {command.reason}."
        return Executed(Problem(409, "invalid-state-transition", detail))
    issued = _replacement(command, card)
    reason = card.state_reason if card.state == state else command.reason
    effects: tuple[Effect, ...] = (
        CardChanged(state, reason, card.controls),
        CardReplaced(command.id, command.reason),
    )
    if issued.rules:
        effects += (RulesChanged((), issued.rules),)
    evolve(card, None, None, effects)
    events = replacement_events(command, card, now_ms)
    reply = Done(201, card_view(card_of(issued, now_ms)))
    return Executed(reply, True, effects, events, issues=issued)


def _replacement(command: ReplaceCard, card: Card) -> CreateCard:
    """The issue of the replacement, with all that it continues. Failed checks of the CVV2 belong to the old
    card number and are not continued."""
    return CreateCard(
        id=command.id,
        command_key=key_of(derive(command.id, Derived.ISSUE)),
        tenant_id=card.tenant_id,
        live=card.live,
        programme_id=card.programme_id,
        card_product_id=card.card_product_id,
        cardholder_id=card.cardholder_id,
        account_id=card.account_id,
        opens_account=False,
        network=cast(Literal["visa", "mastercard"], card.network),
        currency=card.currency,
        iin=card.iin,
        last4=command.last4,
        pan_ref=command.pan_ref,
        exp_month=command.exp_month,
        exp_year=command.exp_year,
        cvk_generation=command.cvk_generation,
        state=command.state,
        controls=card.controls,
        rules=tuple(msgspec.structs.replace(rule, scope_id=command.id) for rule in card.rules),
        cardholder_active=False,
        external_ref=command.external_ref,
        metadata=command.metadata,
        continues=continuation_of(card),
    )


def continuation_of(card: Card) -> Continuation:
    """The counters of ``card`` and its declared balance, with which its replacement begins."""
    declared = card.declared
    return Continuation(
        card_id=card.id,
        day=card.day,
        day_count=card.day_count,
        day_amount_minor=card.day_amount_minor,
        declared_minor=None if declared is None else declared.balance_minor,
        consumed_minor=0 if declared is None else declared.consumed_minor,
        declared_ms=0 if declared is None else declared.declared_ms,
    )
