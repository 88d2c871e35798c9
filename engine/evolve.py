"""The only place where effects change state. Replaying a journal is a fold of these functions."""

from __future__ import annotations

from typing import get_args

from engine.account import Account, close_hold, place_hold, post, resize_hold
from engine.authorization import Authorization
from engine.card import Card
from engine.effects import (
    AccountEffect,
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
)

_ACCOUNT_EFFECTS = get_args(AccountEffect)


def evolve(
    card: Card, account: Account | None, original: Authorization | None, effects: tuple[Effect, ...]
) -> None:
    """Apply the ``effects`` of one command; a balance that changed moves up by one version."""
    balance_changed = False
    for effect in effects:
        if isinstance(effect, _ACCOUNT_EFFECTS):
            assert account is not None, "only funded cards have balance effects"
            _evolve_account(account, effect)
            balance_changed = True
        elif isinstance(effect, AuthorizationMoved | IncrementSet):
            assert original is not None, "only a follow-up moves an authorization"
            _evolve_authorization(original, effect)
        else:
            _evolve_card(card, effect)
    if balance_changed and account is not None:
        account.version += 1


def _evolve_account(account: Account, effect: AccountEffect) -> None:
    if isinstance(effect, HoldPlaced):
        place_hold(account, effect.hold)
    elif isinstance(effect, HoldResized):
        resize_hold(account, account.holds[effect.hold_id], effect.amount_minor, effect.expires_ms)
    elif isinstance(effect, HoldClosed | HoldLapsed):
        close_hold(account, effect.hold_id)
    else:
        post(account, effect.amount_minor if effect.direction == "credit" else -effect.amount_minor)


def _evolve_authorization(authorization: Authorization, effect: AuthorizationMoved | IncrementSet) -> None:
    if isinstance(effect, IncrementSet):
        authorization.raised[effect.reference] = effect.left_minor
        return
    authorization.approved_minor = effect.approved_minor
    authorization.cleared_minor = effect.cleared_minor
    authorization.reversed_minor = effect.reversed_minor
    authorization.hold_id = effect.hold_id
    authorization.closed = effect.closed
    authorization.decline_reason = effect.decline_reason
    authorization.remainder_minor = effect.remainder_minor


def _evolve_card(card: Card, effect: Effect) -> None:
    if isinstance(effect, Counted):
        _count(card, effect)
    elif isinstance(effect, Cvv2Failed):
        _open_day(card, effect.day)
        card.cvv2_failures += 1
    elif isinstance(effect, TombstoneSet):
        card.tombstones |= frozenset(effect.references)
    elif isinstance(effect, CardChanged):
        card.state, card.state_reason, card.controls = effect.state, effect.state_reason, effect.controls
    elif isinstance(effect, CardholderSet):
        card.cardholder_active = effect.active
    elif isinstance(effect, BalanceDeclared):
        card.declared = effect.declared


def _count(card: Card, effect: Counted) -> None:
    """What is given back on a day that is over changes no counter: it is nobody's any more."""
    if effect.day < card.day:
        return
    _open_day(card, effect.day)
    card.day_count = max(0, card.day_count + effect.count)
    card.day_amount_minor = max(0, card.day_amount_minor + effect.amount_minor)


def _open_day(card: Card, day: str) -> None:
    """A new day starts the counters at zero; a closed day is never reopened, because ``day`` never goes
    back."""
    if day > card.day:
        card.day, card.day_count, card.day_amount_minor, card.cvv2_failures = day, 0, 0, 0
