"""Advices: the held amount is the one that the merchant saw, less the presented part."""

from __future__ import annotations

from typing import Any

import pytest

from engine.commands import Advise
from tests.support.engine.desk import SALE, SHOP, Desk

# A decline, its reversal and the network's own approval, in any order; an advice after captures.
ADVICES: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int]]] = {
    "declined, reversed, advised": ([("authorize", 50_000), ("reverse",), ("advise", 50_000)], (10_000, 0)),
    "declined, advised, reversed": ([("authorize", 50_000), ("advise", 50_000), ("reverse",)], (10_000, 0)),
    "reversed, declined, advised": ([("reverse",), ("authorize", 50_000), ("advise", 50_000)], (10_000, 0)),
    "reversed, advised": ([("reverse",), ("advise", 50_000)], (10_000, 0)),
    "advised, reversed": ([("advise", 50_000), ("reverse",)], (10_000, 0)),
    "declined, lowered, advised": ([("authorize", 50_000), ("lower", 1), ("advise", 9)], (10_000, 9)),
    "captured in part, advised": ([("authorize", 6_000), ("part", 3_000), ("advise", 5_000)], (7_000, 2_000)),
    "captured in part, advised of that": (
        [("authorize", 6_000), ("part", 3_000), ("advise", 3_000)],
        (7_000, 0),
    ),
    "captured in part, advised of less": (
        [("authorize", 6_000), ("part", 3_000), ("advise", 1_000)],
        (7_000, 0),
    ),
    "captured in part, lapsed, advised": (
        [("authorize", 6_000), ("part", 3_000), ("expire",), ("advise", 5_000)],
        (7_000, 2_000),
    ),
    "captured in part, lapsed, advised of that": (
        [("authorize", 6_000), ("part", 3_000), ("expire",), ("advise", 3_000)],
        (7_000, 0),
    ),
    "declined, forced, advised": (
        [("authorize", 11_000), ("present", 11_000), ("advise", 11_000)],
        (-1_000, 0),
    ),
    "forced, advised of more": ([("present", 3_000), ("advise", 5_000)], (7_000, 2_000)),
    "forced, advised of a decline": ([("present", 3_000), ("advise_no", 3_000)], (7_000, 0)),
}


@pytest.mark.parametrize("name", ADVICES)
def test_balance_after_advices(name: str) -> None:
    said, balance = ADVICES[name]
    desk = Desk()
    for verb, *amounts in said:
        getattr(desk, verb)(*amounts)
    assert desk.balance == balance


def test_advised_decline_subtracts_the_sale_from_the_usage() -> None:
    desk = Desk()
    desk.authorize(1_000)
    assert desk.advise(1_000, approved=False) == "00"
    assert (desk.balance, desk.status()) == ((10_000, 0), "reversed")
    assert (desk.card.day_count, desk.card.day_amount_minor) == (0, 0)
    desk.authorize(1_000, "in part")
    desk.present(400, "in part", final=False)
    desk.advise(1_000, "in part", approved=False)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 400)


def test_advice_in_another_currency_is_refused() -> None:
    desk = Desk()
    desk.authorize(1_000)
    command = desk.follow_up(Advise, SALE, amount_minor=500, channel="pos", **SHOP | {"currency": "USD"})
    assert desk.code(command) == "12"
    assert desk.balance == (10_000, 1_000)


def test_advice_of_more_after_a_lapse_on_the_same_day_counts_the_difference() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.expire()
    desk.advise(1_500)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 1_500)
    assert desk.balance == (10_000, 1_500)
