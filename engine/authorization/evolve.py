"""The only place where effects change state. Replaying a journal is a fold of these functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from engine.authorization.effects import (
    AuthorizationMoved,
    BalanceDeclared,
    CardChanged,
    CardholderSet,
    Counted,
    Cvv2Failed,
    Effect,
    HoldClosed,
    HoldLapsed,
    HoldPlaced,
    HoldResized,
    IncrementSet,
    TombstoneSet,
    Transferred,
)
from engine.cards.account import Account, close_hold, place_hold, post, resize_hold
from engine.cards.authorization import Authorization, Increment
from engine.cards.card import Card, bury


def evolve(
    card: Card, account: Account | None, original: Authorization | None, effects: tuple[Effect, ...]
) -> None:
    """Apply the ``effects`` of one command; a balance that changed moves up by one version."""
    balance_changed = False
    for effect in effects:
        kind = type(effect)
        if kind in ACCOUNT_STEPS:
            assert account is not None, "only funded cards have balance effects"
            ACCOUNT_STEPS[kind](account, effect)
            balance_changed = True
        elif kind in AUTHORIZATION_STEPS:
            assert original is not None, "only a follow-up moves an authorization"
            AUTHORIZATION_STEPS[kind](original, effect)
        elif kind in CARD_STEPS:
            CARD_STEPS[kind](card, effect)
    if balance_changed and account is not None:
        account.version += 1


# --- accounts


def _placed(account: Account, effect: HoldPlaced) -> None:
    place_hold(account, effect.hold)


def _resized(account: Account, effect: HoldResized) -> None:
    resize_hold(account, account.holds[effect.hold_id], effect.amount_minor, effect.expires_ms)


def _ended(account: Account, effect: HoldClosed | HoldLapsed) -> None:
    close_hold(account, effect.hold_id)


def _transferred(account: Account, effect: Transferred) -> None:
    post(account, effect.amount_minor if effect.direction == "credit" else -effect.amount_minor)


# --- authorizations


def _moved(authorization: Authorization, effect: AuthorizationMoved) -> None:
    authorization.approved_minor = effect.approved_minor
    authorization.cleared_minor = effect.cleared_minor
    authorization.reversed_minor = effect.reversed_minor
    authorization.hold_id = effect.hold_id
    authorization.closed = effect.closed
    authorization.decline_reason = effect.decline_reason
    authorization.remainder_minor = effect.remainder_minor
    authorization.day = effect.day


def _increment_set(authorization: Authorization, effect: IncrementSet) -> None:
    authorization.raised[effect.reference] = Increment(effect.left_minor, effect.day, effect.counted_minor)


# --- cards


def _counted(card: Card, effect: Counted) -> None:
    """What is given back on a day that is over changes no counter: it is nobody's any more."""
    if effect.day < card.day:
        return
    _open_day(card, effect.day)
    card.day_count = max(0, card.day_count + effect.count)
    card.day_amount_minor = max(0, card.day_amount_minor + effect.amount_minor)


def _cvv2_failed(card: Card, effect: Cvv2Failed) -> None:
    _open_day(card, effect.day)
    card.cvv2_failures += 1


def _buried(card: Card, effect: TombstoneSet) -> None:
    bury(card, effect.references, effect.recorded_ms)


def _changed(card: Card, effect: CardChanged) -> None:
    card.state, card.state_reason, card.controls = effect.state, effect.state_reason, effect.controls


def _cardholder_set(card: Card, effect: CardholderSet) -> None:
    card.cardholder_active = effect.active


def _declared(card: Card, effect: BalanceDeclared) -> None:
    card.declared = effect.declared


def _open_day(card: Card, day: str) -> None:
    """A new day starts the counters at zero; a closed day is never reopened, because ``day`` never goes
    back."""
    if day > card.day:
        card.day, card.day_count, card.day_amount_minor, card.cvv2_failures = day, 0, 0, 0


ApplyEffect = Callable[[Any, Any], None]

ACCOUNT_STEPS: Final[dict[type, ApplyEffect]] = {
    HoldPlaced: _placed,
    HoldResized: _resized,
    HoldClosed: _ended,
    HoldLapsed: _ended,
    Transferred: _transferred,
}
AUTHORIZATION_STEPS: Final[dict[type, ApplyEffect]] = {
    AuthorizationMoved: _moved,
    IncrementSet: _increment_set,
}
CARD_STEPS: Final[dict[type, ApplyEffect]] = {
    Counted: _counted,
    Cvv2Failed: _cvv2_failed,
    TombstoneSet: _buried,
    CardChanged: _changed,
    CardholderSet: _cardholder_set,
    BalanceDeclared: _declared,
}
"""What each effect does; one that stands in no table (an authorization opened, a stand-in recorded) changes
nothing that is there."""
