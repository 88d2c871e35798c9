"""Usage reversals: amounts are subtracted on the day on which they were counted."""

from __future__ import annotations

from typing import Any

import pytest

from engine.instant import DAY_MS
from tests.support.engine.desk import Desk
from tests.support.engine.gateway_desk import desk_in, in_both_modes


def test_full_reversal_subtracts_count_and_amount() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.reverse()
    assert (desk.card.day_count, desk.card.day_amount_minor) == (0, 0)


def test_reversal_of_yesterdays_sale_leaves_todays_usage() -> None:
    desk = Desk()
    desk.authorize(1_000)
    desk.now_ms += DAY_MS
    desk.authorize(200, "today")
    desk.reverse()
    assert (desk.card.day_count, desk.card.day_amount_minor) == (1, 200)


# Messages and the ends of days; then the amount and the count of each day at its end.
DAYS: dict[str, tuple[list[tuple[Any, ...]], list[tuple[int, int]]]] = {
    "raised next day, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, lowered by less": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 1_200)],
        [(1_000, 1), (200, 0)],
    ),
    "raised next day, lowered by more": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 300)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, lowered, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("lower", 1_200), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
    "raised next day, another sale, reversed": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("authorize", 70, "b"), ("reverse",)],
        [(1_000, 1), (70, 1)],
    ),
    "raised on two days, the older one undone": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("day",), ("increment", 40), ("undo", 2)],
        [(1_000, 1), (500, 0), (40, 0)],
    ),
    "raised on two days, the newer one undone": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("day",), ("increment", 40), ("undo", 3)],
        [(1_000, 1), (500, 0), (0, 0)],
    ),
    "declined, advised next day, reversed": (
        [("authorize", 50_000), ("day",), ("advise", 50_000), ("reverse",)],
        [(0, 0), (0, 0)],
    ),
    "raised next day, advised of less": (
        [("authorize", 1_000), ("day",), ("increment", 500), ("advise", 1_100)],
        [(1_000, 1), (100, 0)],
    ),
    "lapsed, advised of more next day, reversed": (
        [("authorize", 1_000), ("expire",), ("day",), ("advise", 1_500), ("reverse",)],
        [(1_000, 1), (0, 0)],
    ),
}


@pytest.mark.parametrize(("name", "gateway"), in_both_modes(DAYS))
def test_reversal_subtracts_on_the_day_of_the_count(name: str, gateway: bool) -> None:
    said, days = DAYS[name]
    desk = desk_in(gateway)
    seen = []
    for verb, *amounts in said:
        if verb == "day":
            seen.append((desk.card.day_amount_minor, desk.card.day_count))
            desk.now_ms += DAY_MS
            continue
        getattr(desk, verb)(*amounts)
    assert [*seen, (desk.card.day_amount_minor, desk.card.day_count)] == days
