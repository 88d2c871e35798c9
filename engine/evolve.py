"""The only place where effects change state. Replaying a journal is a fold of these functions."""

from __future__ import annotations

from engine.account import Account, close_hold, place_hold, post
from engine.card import Card
from engine.effects import (
    AccountEffect,
    CardChanged,
    Credited,
    Cvv2Failed,
    Effect,
    HoldLapsed,
    HoldPlaced,
    PurchaseCounted,
)


def evolve(card: Card, account: Account | None, effects: tuple[Effect, ...]) -> None:
    """Apply ``effects`` of one command to the card and its funding account; balances move up by one version
    if they changed."""
    balance_changed = False
    for effect in effects:
        if isinstance(effect, HoldPlaced | HoldLapsed | Credited):
            assert account is not None, "only funded cards have balance effects"
            _evolve_account(account, effect)
            balance_changed = True
        else:
            _evolve_card(card, effect)
    if balance_changed and account is not None:
        account.version += 1


def _evolve_account(account: Account, effect: AccountEffect) -> None:
    if isinstance(effect, HoldPlaced):
        place_hold(account, effect.hold)
    elif isinstance(effect, HoldLapsed):
        close_hold(account, effect.hold)
    else:
        post(account, effect.amount_minor)


def _evolve_card(card: Card, effect: Effect) -> None:
    if isinstance(effect, PurchaseCounted):
        _open_day(card, effect.day)
        card.day_count += 1
        card.day_amount_minor += effect.amount_minor
    elif isinstance(effect, Cvv2Failed):
        _open_day(card, effect.day)
        card.cvv2_failures += 1
    elif isinstance(effect, CardChanged):
        card.state, card.state_reason, card.controls = effect.state, effect.state_reason, effect.controls


def _open_day(card: Card, day: str) -> None:
    """A new day starts the counters at zero; a closed day is never reopened, because ``authorize`` never
    goes back."""
    if day != card.day:
        card.day, card.day_count, card.day_amount_minor, card.cvv2_failures = day, 0, 0, 0
