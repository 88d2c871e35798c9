"""Advices: the held amount is the one that the merchant saw, less the presented part."""

from __future__ import annotations

from typing import Any

import pytest

from engine.commands import Advise
from tests.support.engine.desk import SALE, SHOP, Desk
from tests.support.engine.gateway_desk import GatewayDesk

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


# Advised increments: events of a sale, and the posted and held amounts after them.
INCREMENTS: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int]]] = {
    "raises the hold": ([("authorize", 1_000), ("raise", 500)], (10_000, 1_500)),
    "raises it beyond the funds": ([("authorize", 9_000), ("raise", 5_000)], (10_000, 14_000)),
    "twice": ([("authorize", 1_000), ("raise", 500), ("raise", 300)], (10_000, 1_800)),
    "after a partial capture": ([("authorize", 1_000), ("part", 400), ("raise", 500)], (9_600, 1_100)),
    "after a partial reversal": ([("authorize", 1_000), ("lower", 200), ("raise", 500)], (10_000, 700)),
    "of a lapsed hold": ([("authorize", 1_000), ("expire",), ("raise", 500)], (10_000, 1_500)),
    "of an unknown sale": ([("raise", 500)], (10_000, 500)),
    "of a reversed sale": ([("authorize", 1_000), ("reverse",), ("raise", 500)], (10_000, 0)),
    "that the merchant saw declined": ([("authorize", 1_000), ("raise_no", 500)], (10_000, 1_000)),
}


def after_increments(desk: Desk, said: list[tuple[Any, ...]]) -> None:
    for verb, *amounts in said:
        if verb.startswith("raise"):
            assert desk.advise(*amounts, increment=True, approved=verb == "raise") == "00"
        else:
            getattr(desk, verb)(*amounts)


@pytest.mark.parametrize("name", INCREMENTS)
def test_advised_increment_is_added_to_the_sale(name: str) -> None:
    said, balance = INCREMENTS[name]
    desk = Desk()
    after_increments(desk, said)
    assert desk.balance == balance


@pytest.mark.parametrize("name", [name for name in INCREMENTS if "lapsed" not in name])
def test_advised_increment_is_open_in_gateway_mode(name: str) -> None:
    said, (_, open_minor) = INCREMENTS[name]
    desk = GatewayDesk()
    after_increments(desk, said)
    assert desk.figures()[1] == open_minor


def test_advised_increment_counts_its_amount_once() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.advise(500, increment=True)
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 1_500)
