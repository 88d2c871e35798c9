"""Commands on a card and its balance: replies, changes, and refusals that change no state."""

from __future__ import annotations

import copy

import pytest

from engine.cards.account import balance_view
from engine.ids import Derived, derive
from engine.instant import DAY_MS, to_text
from engine.replies import Done
from tests.support.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    account,
    authorize,
    card,
    read_balance,
)
from tests.support.engine.life import Life, approved


@pytest.fixture
def life() -> Life:
    return Life(card(), account())


# --- holds that have expired ---


def test_expired_hold_is_closed_before_the_decision(life: Life) -> None:
    life.do(authorize(1, amount_minor=9_000))
    later = NOW_MS + 7 * DAY_MS
    assert not approved(life.do(authorize(2, amount_minor=5_000), later - 1))
    executed = life.do(authorize(3, amount_minor=10_000), later)
    assert approved(executed)
    assert executed.inputs is not None
    assert executed.inputs.lapsed_holds == (derive(authorize(1).id, Derived.HOLD),)
    assert (executed.inputs.held_minor, executed.inputs.posted_minor) == (0, 10_000)
    assert set(life.account.holds) == {derive(authorize(3).id, Derived.HOLD)}
    assert (life.account.held_minor, life.account.version) == (10_000, 3)


def test_declined_command_closes_expired_holds_too(life: Life) -> None:
    life.do(authorize(1))
    assert not approved(life.do(authorize(2, currency="USD"), NOW_MS + 8 * DAY_MS))
    assert life.account == account(version=3)


def test_travel_hold_expires_later(life: Life) -> None:
    life.do(authorize(1, mcc="7011"))
    life.do(authorize(2))
    life.do(authorize(3, amount_minor=0), NOW_MS + 8 * DAY_MS)
    assert set(life.account.holds) == {derive(authorize(1).id, Derived.HOLD)}
    assert life.account.expiries[0].expires_ms == NOW_MS + 30 * DAY_MS


# --- balances ---


@pytest.mark.parametrize(
    ("now_ms", "held", "available"),
    [
        (NOW_MS, "15.00", "85.00"),
        (NOW_MS + 7 * DAY_MS - 1, "15.00", "85.00"),
        (NOW_MS + 7 * DAY_MS, "5.00", "95.00"),
        (NOW_MS + 30 * DAY_MS, "0.00", "100.00"),
    ],
)
def test_balance_excludes_expired_holds(life: Life, now_ms: int, held: str, available: str) -> None:
    life.do(authorize(1))
    life.do(authorize(2, mcc="7011", amount_minor=500))
    before = copy.deepcopy(life.account)
    executed = life.do(read_balance(), now_ms)
    assert isinstance(executed.reply, Done)
    assert executed.reply.body == {
        "card_id": CARD,
        "account_id": ACCOUNT,
        "currency": "EUR",
        "posted": "100.00",
        "held": held,
        "available": available,
        "as_of": to_text(now_ms),
        "version": 3,
    }
    assert not executed.journaled
    assert life.account == before


def test_balance_of_an_unfunded_card_is_zero() -> None:
    life = Life(card(account_id=None), None)
    executed = life.do(read_balance())
    assert isinstance(executed.reply, Done)
    assert executed.reply.body | {"as_of": ""} == {
        "card_id": CARD,
        "account_id": None,
        "currency": "EUR",
        "posted": "0.00",
        "held": "0.00",
        "available": "0.00",
        "as_of": "",
        "version": 0,
    }


def test_available_balance_can_be_negative() -> None:
    view = balance_view(account(posted_minor=-5, held_minor=10), CARD, "EUR", NOW_MS)
    assert (view["posted"], view["held"], view["available"]) == ("-0.05", "0.10", "-0.15")
