"""Presentments: captures and refunds."""

from __future__ import annotations

from typing import Any

import pytest

from engine.commands import (
    Present,
)
from tests.support.engine.desk import SALE, SHOP, Desk


def test_several_captures_draw_on_one_hold() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.present(300, final=False)
    assert (desk.balance, desk.status()) == ((9_700, 700), "partially_cleared")
    desk.present(700, final=False)
    assert (desk.balance, desk.status()) == ((9_000, 0), "cleared")


@pytest.mark.parametrize(("parts", "code"), [({"currency": "USD"}, "12"), ({"amount_minor": 0}, "13")])
def test_invalid_presentment_posts_nothing(parts: dict[str, Any], code: str) -> None:
    desk = Desk()
    command = desk.follow_up(
        Present, SALE, kind="purchase", arn=None, sequence=1, **({"amount_minor": 5} | SHOP | parts)
    )
    assert desk.code(command) == code
    assert desk.balance == (10_000, 0)


@pytest.mark.parametrize(
    ("before", "code", "balance"),
    [
        ([], "58", (10_000, 0)),
        ([("authorize", 20_000)], "58", (10_000, 0)),
        ([("authorize", 500)], "00", (9_500, 0)),
        ([("authorize", 500), ("reverse",)], "00", (9_500, 0)),
    ],
)
def test_sender_without_force_posts_must_present_an_approved_sale(
    before: list[tuple[Any, ...]], code: str, balance: tuple[int, int]
) -> None:
    """Late presentments of approved sales still post."""
    desk = Desk()
    for name, *arguments in before:
        getattr(desk, name)(*arguments)
    command = desk.follow_up(
        Present, SALE, kind="purchase", arn=None, sequence=1, amount_minor=500, matched_only=True, **SHOP
    )
    assert desk.code(command) == code
    assert desk.balance == balance


# Messages about refunds under one network id; then the posted and the held amount.
REFUNDS: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int]]] = {
    "authorized": ([("refund", 700)], (10_700, 0)),
    "authorized, presented": ([("refund", 700), ("give", 700)], (10_700, 0)),
    "authorized, presented for less": ([("refund", 700), ("give", 600)], (10_700, 0)),
    "authorized, presented for more": ([("refund", 700), ("give", 900)], (10_900, 0)),
    "authorized, presented in two parts": ([("refund", 700), ("give", 300), ("give", 400)], (10_700, 0)),
    "authorized, presented twice in full": ([("refund", 700), ("give", 700), ("give", 700)], (11_400, 0)),
    "authorized, two parts and more": (
        [("refund", 700), ("give", 300), ("give", 400), ("give", 200)],
        (10_900, 0),
    ),
    "presented twice": ([("give", 300), ("give", 200)], (10_500, 0)),
    "two authorized, both presented": (
        [("refund", 300), ("refund", 200), ("give", 300), ("give", 200)],
        (10_500, 0),
    ),
    "two authorized, both presented the other way": (
        [("refund", 300), ("refund", 200), ("give", 200), ("give", 300)],
        (10_500, 0),
    ),
    "taken back": ([("refund", 700), ("reverse",)], (10_000, 0)),
    "taken back in part": ([("refund", 700), ("lower", 300)], (10_300, 0)),
    "taken back in part twice": ([("refund", 700), ("lower", 300), ("lower", 300)], (10_300, 0)),
    "taken back to more than it is": ([("refund", 700), ("lower", 900)], (10_700, 0)),
    "taken back, then presented": ([("refund", 700), ("reverse",), ("give", 700)], (10_700, 0)),
    "taken back, then presented for less": ([("refund", 700), ("reverse",), ("give", 300)], (10_300, 0)),
    "taken back, then presented for more": ([("refund", 700), ("reverse",), ("give", 900)], (10_900, 0)),
    "reversed before it came": ([("reverse",), ("refund", 700)], (10_000, 0)),
    "presented, then reversed": ([("refund", 700), ("give", 700), ("reverse",)], (10_700, 0)),
    "presented in part, then reversed": ([("refund", 700), ("give", 300), ("reverse",)], (10_300, 0)),
    "presented unasked, then reversed": ([("give", 700), ("reverse",)], (10_700, 0)),
    "captured in part, refunded, captured": (
        [("authorize", 6_000), ("part", 3_000), ("give", 1_000), ("present", 3_000)],
        (5_000, 0),
    ),
    "captured in part, refund authorized, captured": (
        [("authorize", 6_000), ("part", 3_000), ("refund", 1_000), ("give", 1_000), ("present", 3_000)],
        (5_000, 0),
    ),
    "captured, refunded, then reversed late": (
        [("authorize", 1_000), ("present", 1_000), ("refund", 400), ("reverse",)],
        (9_400, 0),
    ),
    "held, refunded, then reversed late": (
        [("authorize", 1_000), ("refund", 400), ("reverse",)],
        (10_400, 0),
    ),
    "held, refunded, then raised": (
        [("authorize", 1_000), ("refund", 400), ("increment", 500)],
        (10_400, 1_500),
    ),
    "held, refunded, then advised": (
        [("authorize", 1_000), ("refund", 400), ("advise", 700)],
        (10_400, 700),
    ),
    "held, a second attempt declined, captured": (
        [("authorize", 6_000), ("authorize", 9_000), ("present", 6_000)],
        (4_000, 0),
    ),
}


@pytest.mark.parametrize("name", REFUNDS)
def test_balance_after_refunds_of_one_network_id(name: str) -> None:
    said, balance = REFUNDS[name]
    desk = Desk()
    for verb, *amounts in said:
        assert getattr(desk, verb)(*amounts) in {"00", "51"}
    assert desk.balance == balance
    assert not any(each.kind == "force_post" for each in desk.known)
