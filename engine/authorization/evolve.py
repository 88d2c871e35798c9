"""The only functions that apply effects to state. The replay of a journal is a fold of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.authorization.effects import (
    AuthorizationUpdated,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    CardReplaced,
    Cvv2Failed,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    IncrementSet,
    RulesChanged,
    TombstoneSet,
    Transferred,
    UsageCounted,
)
from engine.cards.account import Account, close_hold, place_hold, post, resize_hold
from engine.cards.authorization import Authorization, Increment
from engine.cards.card import Card, add_tombstones


def evolve(
    card: Card, account: Account | None, original: Authorization | None, effects: tuple[Effect, ...]
) -> None:
    """Apply the ``effects`` of one command. If the balance changed, the account's version rises by one."""
    balance_changed = False
    for effect in effects:
        kind = type(effect)
        change = ACCOUNT_CHANGES.get(kind)
        if change is not None:
            assert account is not None, "only funded cards have balance effects"
            change(account, effect)
            balance_changed = True
            continue
        change = CARD_CHANGES.get(kind)
        if change is not None:
            change(card, effect)
            continue
        change = AUTHORIZATION_CHANGES.get(kind)
        if change is not None:
            assert original is not None, "only a follow-up changes an authorization"
            change(original, effect)
    if balance_changed and account is not None:
        account.version += 1


# --- accounts


def _place(account: Account, effect: HoldPlaced) -> None:
    place_hold(account, effect.hold)


def _resize(account: Account, effect: HoldResized) -> None:
    resize_hold(account, account.holds[effect.hold_id], effect.amount_minor, effect.expires_ms)


def _close(account: Account, effect: HoldClosed | HoldLapsed) -> None:
    close_hold(account, effect.hold_id)


def _post(account: Account, effect: Transferred) -> None:
    post(account, effect.amount_minor if effect.direction == "credit" else -effect.amount_minor)


# --- authorizations


def _update(authorization: Authorization, effect: AuthorizationUpdated) -> None:
    authorization.approved_minor = effect.approved_minor
    authorization.cleared_minor = effect.cleared_minor
    authorization.reversed_minor = effect.reversed_minor
    authorization.hold_id = effect.hold_id
    authorization.closed = effect.closed
    authorization.decline_reason = effect.decline_reason
    authorization.remainder_minor = effect.remainder_minor
    authorization.day = effect.day


def _set_increment(authorization: Authorization, effect: IncrementSet) -> None:
    increment = Increment(effect.left_minor, effect.day, effect.counted_minor)
    authorization.increments[effect.reference] = increment


# --- cards


def _count(card: Card, effect: UsageCounted) -> None:
    """A past day has no counters any more, so its usage is ignored."""
    if effect.day < card.day:
        return
    _open_day(card, effect.day)
    card.day_count = max(0, card.day_count + effect.count)
    card.day_amount_minor = max(0, card.day_amount_minor + effect.amount_minor)


def _count_cvv2_failure(card: Card, effect: Cvv2Failed) -> None:
    _open_day(card, effect.day)
    card.cvv2_failures += 1


def _add_tombstones(card: Card, effect: TombstoneSet) -> None:
    add_tombstones(card, effect.references, effect.recorded_ms)


def _change(card: Card, effect: CardChanged) -> None:
    card.state, card.state_reason, card.controls = effect.state, effect.state_reason, effect.controls


def _change_rules(card: Card, effect: RulesChanged) -> None:
    card.rules = effect.rules


def _replace(card: Card, effect: CardReplaced) -> None:
    card.replaced_by = effect.replacement_id


def _set_cardholder(card: Card, effect: CardholderSet) -> None:
    card.cardholder_active = effect.active


def _declare(card: Card, effect: BalanceDeclared) -> None:
    card.declared = effect.declared


def _open_day(card: Card, day: str) -> None:
    """Reset the counters on a new day. ``day`` never goes back, so a past day is not reopened."""
    if day > card.day:
        card.day, card.day_count, card.day_amount_minor, card.cvv2_failures = day, 0, 0, 0


ApplyEffect = Callable[[Any, Any], None]

ACCOUNT_CHANGES: Final[dict[type, ApplyEffect]] = {
    HoldPlaced: _place,
    HoldResized: _resize,
    HoldClosed: _close,
    HoldLapsed: _close,
    Transferred: _post,
}
AUTHORIZATION_CHANGES: Final[dict[type, ApplyEffect]] = {
    AuthorizationUpdated: _update,
    IncrementSet: _set_increment,
}
CARD_CHANGES: Final[dict[type, ApplyEffect]] = {
    UsageCounted: _count,
    Cvv2Failed: _count_cvv2_failure,
    TombstoneSet: _add_tombstones,
    CardChanged: _change,
    RulesChanged: _change_rules,
    CardReplaced: _replace,
    CardholderSet: _set_cardholder,
    BalanceDeclared: _declare,
}
"""The function of each effect. Effects in none of the tables (``AuthorizationOpened``, ``CardIssued``,
``StandInRecorded``) change no existing state."""
