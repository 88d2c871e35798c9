"""Reversals: the released amount, increments, and tombstones of messages that have not come yet."""

from __future__ import annotations

from typing import Any

import pytest

from engine.cards.card import has_tombstone
from engine.commands import (
    reference_of_message,
    reference_of_network,
)
from engine.currencies import MerchantAmount
from engine.instant import DAY_MS
from engine.limits import TOMBSTONES_DELETED_MAX
from tests.support.engine.build import (
    NOW_MS,
    key,
)
from tests.support.engine.desk import SALE, Desk


def test_partial_reversal_lowers_the_hold_to_de95() -> None:
    desk = Desk()
    desk.authorize(1_000)
    assert desk.reverse(remaining_minor=400) == "00"
    assert desk.balance == (10_000, 400)
    assert desk.reverse(remaining_minor=600) == "00"
    assert desk.balance == (10_000, 400)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 400)


@pytest.mark.parametrize(("currency", "held"), [("JPY", 246), ("EUR", 400), (None, 246)])
def test_partial_reversal_of_a_converted_sale_leaves_its_share(currency: str | None, held: int) -> None:
    """DE95 is in the merchant's currency, unless the message says the card's."""
    desk = Desk()
    desk.authorize(613, merchant_amount=MerchantAmount(1_000, "JPY"))
    assert desk.reverse(remaining_minor=400, remaining_currency=currency) == "00"
    assert desk.balance == (10_000, held)


def test_reversal_of_an_increment_leaves_the_first_amount() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.increment(500)
    assert desk.reverse(increment_minor=500) == "00"
    assert desk.balance == (10_000, 1_000)


@pytest.mark.parametrize(
    ("parts", "left"),
    [
        ({}, [1_000, 1_000]),
        ({"remaining_minor": 200}, [1_200, 1_200]),
        ({"increment_minor": 500}, [1_000, 1_000]),
    ],
)
def test_reversal_that_names_an_increment_reverses_it_once(parts: dict[str, Any], left: list[int]) -> None:
    """A repeated reversal with another identity changes nothing."""
    desk = Desk()
    desk.authorize(1_000)
    named = (reference_of_message(key(desk.number + 1)), reference_of_network(SALE))
    desk.increment(500)
    desk.known.add_reference(named[0], desk.known[named[1]])
    held = []
    for _ in left:
        assert desk.reverse(references=named, **parts) == "00"
        held.append(desk.account.held_minor)
    assert held == left
    assert desk.status() == "pending"


def test_reversal_of_a_declined_increment_releases_nothing() -> None:
    desk = Desk()
    desk.authorize(1_000)
    named = (reference_of_message(key(desk.number + 1)),)
    assert desk.increment(9_500) == "51"
    desk.known.add_reference(named[0], desk.known[reference_of_network(SALE)])
    assert desk.reverse(references=named) == "00"
    assert desk.balance == (10_000, 1_000)


def test_reversal_before_its_increment_leaves_a_tombstone_for_it() -> None:
    """The sale is reversed, and the increment that comes later raises no hold."""
    desk = Desk()
    desk.authorize(1_000)
    key_of_increment = key(desk.number + 2)
    desk.reverse(references=(reference_of_message(key_of_increment), reference_of_network(SALE)))
    assert desk.increment(500) == "00"
    assert desk.balance == (10_000, 0)


def test_refund_reversed_before_it_came_credits_nothing() -> None:
    desk = Desk()
    desk.reverse()
    assert desk.authorize(700, kind="refund") == "00"
    assert desk.balance == (10_000, 0)


def test_increment_reversed_before_it_came_raises_no_hold() -> None:
    desk = Desk()
    desk.authorize(1_000)
    key_of_increment = key(desk.number + 2)
    desk.reverse("other", references=(reference_of_message(key_of_increment),))
    assert desk.increment(500) == "00"
    assert desk.balance == (10_000, 1_000)
    assert (desk.sale().approved_minor, desk.sale().reversed_minor) == (1_500, 500)
    assert (desk.sale().remainder_minor, desk.status()) == (1_000, "pending")


def test_reversal_of_unpresented_refund_debits_it_once() -> None:
    desk = Desk()
    assert desk.authorize(700, kind="refund") == "00"
    assert [desk.reverse(), desk.reverse()] == ["00", "00"]
    assert (desk.balance, desk.status()) == ((10_000, 0), "reversed")


@pytest.mark.parametrize(("days", "held_minor"), [(29, 0), (30, 1_000)])
def test_tombstone_expires_after_30_days(days: int, held_minor: int) -> None:
    desk = Desk()
    desk.reverse()
    desk.now_ms += days * DAY_MS
    assert desk.authorize(1_000) == "00"
    assert desk.account.held_minor == held_minor


def test_reversal_forgets_few_of_many_expired_tombstones() -> None:
    desk = Desk()
    desk.card.tombstones = {f"n:{number}": NOW_MS for number in range(20_000)}
    desk.now_ms += 30 * DAY_MS
    desk.reverse()
    assert len(desk.card.tombstones) == 20_001 - TOMBSTONES_DELETED_MAX
    assert has_tombstone(desk.card, (reference_of_network(SALE),), desk.now_ms)
