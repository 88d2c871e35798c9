"""Lists: newest first, every row once, and only cursors that name a row of the list."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.ids import new_id
from tests.api.driver import Caller

LISTS = (
    "/v1/programs",
    "/v1/card-products",
    "/v1/cardholders",
    "/v1/cards",
    "/v1/transactions",
    "/v1/events",
    "/v1/webhook-endpoints",
)


async def walk(caller: Caller, path: str, limit: int) -> list[dict[str, Any]]:
    """All rows, page by page."""
    rows: list[dict[str, Any]] = []
    cursor = ""
    while True:
        page = await caller.get(f"{path}{'&' if '?' in path else '?'}limit={limit}{cursor}")
        assert len(page["data"]) <= limit
        assert (page["next_cursor"] is None) == (not page["has_more"])
        rows += page["data"]
        if not page["has_more"]:
            return rows
        assert page["next_cursor"] == page["data"][-1]["id"]
        cursor = f"&starting_after={page['next_cursor']}"


async def test_a_walk_gives_each_row_once_newest_first(acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    made = await asyncio.gather(*(acme.card(product, holder) for _ in range(7)))
    for limit in (1, 3, 7, 100):
        rows = await walk(acme, "/v1/cards", limit)
        assert [row["id"] for row in rows] == sorted((card["id"] for card in made), reverse=True)
        assert {row["id"]: row for row in rows} == {card["id"]: card for card in made}


async def test_rows_added_during_a_walk_do_not_disturb_it(acme: Caller) -> None:
    programmes = [await acme.programme(name=f"P{number}") for number in range(4)]
    first = await acme.get("/v1/programs?limit=2")
    await acme.programme(name="later")
    second = await acme.get(f"/v1/programs?limit=2&starting_after={first['next_cursor']}")
    names = [row["name"] for row in first["data"] + second["data"]]
    assert names == ["P3", "P2", "P1", "P0"]
    assert not second["has_more"]
    assert len(programmes) == 4


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("limit=0", "/limit"),
        ("limit=101", "/limit"),
        ("limit=-1", "/limit"),
        ("limit=1.0", "/limit"),
        ("limit=ten", "/limit"),
        ("limit=", "/limit"),
        ("limit=%D9%A1", "/limit"),
        ("limit=99999999999999999999", "/limit"),
        ("starting_after=x", "/starting_after"),
        ("starting_after=", "/starting_after"),
        ("lmit=5", "/lmit"),
    ],
)
async def test_queries_that_cannot_be(acme: Caller, path: str, query: str, pointer: str) -> None:
    problem = await acme.get(f"{path}?{query}", 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


@pytest.mark.parametrize("path", LISTS)
async def test_an_unknown_cursor(acme: Caller, path: str) -> None:
    assert (await acme.get(f"{path}?starting_after={new_id()}", 400))["type"] == "/problems/invalid-cursor"


async def test_a_parameter_given_twice(acme: Caller) -> None:
    assert (await acme.get("/v1/cards?limit=1&limit=2", 400))["type"] == "/problems/validation-failed"


async def test_a_batch_of_cards(acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    cards = [await acme.card(product, holder) for _ in range(4)]
    asked = [cards[2]["id"], cards[0]["id"], new_id(), cards[2]["id"]]
    page = await acme.get(f"/v1/cards?limit=1&ids={','.join(asked)}")
    assert [row["id"] for row in page["data"]] == [cards[2]["id"], cards[0]["id"]]
    assert (page["has_more"], page["next_cursor"]) == (False, None)
    for query in (
        f"ids={cards[0]['id']}&starting_after={cards[1]['id']}",
        "ids=",
        "ids=x",
        f"ids={cards[0]['id']},",
        "ids=" + ",".join(new_id() for _ in range(101)),
    ):
        assert (await acme.get(f"/v1/cards?{query}", 400))["type"] == "/problems/validation-failed"
    hundred = ",".join([card["id"] for card in cards] + [new_id() for _ in range(96)])
    assert len((await acme.get(f"/v1/cards?ids={hundred}"))["data"]) == 4
