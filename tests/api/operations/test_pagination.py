"""Pagination: newest rows first, every row once, cursors from other lists refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from actors.ids import new_id
from actors.settings import Settings
from actors.vault import Vault
from api.database.pool import connected
from api.operations import pagination
from tests.support.api.driver import Caller
from tests.support.api.stack import installation

LISTS = (
    "/v1/programs",
    "/v1/card-products",
    "/v1/cardholders",
    "/v1/cards",
    "/v1/transactions",
    "/v1/events",
    "/v1/webhook-endpoints",
    "/v1/simulated-spends",
    "/v1/exports",
)


async def walk(caller: Caller, path: str, limit: int) -> list[dict[str, Any]]:
    """All rows, fetched page by page."""
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


async def test_pages_give_each_row_once_newest_first(acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    made = await asyncio.gather(*(acme.card(product, holder) for _ in range(7)))
    for limit in (1, 3, 7, 100):
        rows = await walk(acme, "/v1/cards", limit)
        assert [row["id"] for row in rows] == sorted((card["id"] for card in made), reverse=True)
        assert {row["id"]: row for row in rows} == {card["id"]: card for card in made}


async def test_rows_added_between_pages_do_not_appear(acme: Caller) -> None:
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
async def test_invalid_query_is_refused(acme: Caller, path: str, query: str, pointer: str) -> None:
    problem = await acme.get(f"{path}?{query}", 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


@pytest.mark.parametrize("path", LISTS)
async def test_unknown_cursor_is_refused(acme: Caller, path: str) -> None:
    assert (await acme.get(f"{path}?starting_after={new_id()}", 400))["type"] == "/problems/invalid-cursor"


async def test_repeated_parameter_is_refused(acme: Caller) -> None:
    assert (await acme.get("/v1/cards?limit=1&limit=2", 400))["type"] == "/problems/validation-failed"


async def test_cards_are_listed_by_ids(acme: Caller) -> None:
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


FILLED = """
    INSERT INTO transaction_rows (id, tenant_id, live, card_id, cardholder_id, programme_id, seq, kind,
        status, currency, requested_minor, approved_minor, held_minor, cleared_minor, reversed_minor,
        created_at, updated_at, day, remainder_minor)
    SELECT (substr(to_char(n, 'FM000000000000'), 1, 8) || '-' || substr(to_char(n, 'FM000000000000'), 9)
            || '-7000-8000-' || right(t.id::text, 8) || '0000')::uuid, t.id, false, t.id, t.id, t.id, n,
        CASE WHEN n % 5000 = 1 THEN 'refund' ELSE 'purchase' END, 'declined', 'EUR', 1, 0, 0, 0, 0,
        to_timestamp(0), to_timestamp(0), '1970-01-01', 0
    FROM generate_series(1, 20000) n, tenants t
"""
SCANNED = ("kind=force_post", "status=reversed", "from=1971-01-01T00:00:00Z")
INDEXED = ("card_id={}", "cardholder_id={}", "programme_id={}")


@dataclass
class Watched:
    """A connection that records the number of rows of ``table`` that each statement reads."""

    connection: Any
    table: str
    read: list[float]

    async def fetch(self, statement: str, *values: Any) -> Any:
        text = await self.connection.fetchval(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", *values)
        self.read.append(sum(rows_read(json.loads(text)[0]["Plan"], self.table)))
        return await self.connection.fetch(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        rows = await self.fetch(statement, *values)
        return rows[0][0] if rows else None


def rows_read(plan: dict[str, Any], table: str) -> Iterator[float]:
    if plan.get("Relation Name") == table:
        yield (plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0)) * plan["Actual Loops"]
    for part in plan.get("Plans", ()):
        yield from rows_read(part, table)


@asynccontextmanager
async def rows_watched(
    settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch, table: str, filled: str
) -> AsyncIterator[tuple[Caller, list[float]]]:
    """Two tenants after ``filled``: a caller of one, and the numbers of rows of ``table`` that each of its
    pages reads. A page may scan 200."""
    monkeypatch.setattr(pagination, "PAGE_SCAN_MAX", 200)
    read: list[float] = []

    @asynccontextmanager
    async def watched(pool: Any) -> AsyncIterator[Watched]:
        async with connected(pool) as connection:
            yield Watched(connection, table, read)

    async with installation(settings, vault) as running:
        acme = await running.caller()
        await running.caller("other")
        await running.execute(filled, "ANALYZE")
        monkeypatch.setattr(pagination, "connected", watched)
        yield acme, read


async def test_filtered_pages_read_a_bounded_number_of_rows(
    settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tenants have 20,000 transactions each; one page may scan 200."""
    async with rows_watched(settings, vault, monkeypatch, "transactions", FILLED) as (acme, read):
        programme = await acme.programme()
        for query in (*SCANNED, *INDEXED):
            read.clear()
            page = await acme.get(f"/v1/transactions?{query.format(programme['id'])}")
            assert (page["data"], page["has_more"]) == ([], query in SCANNED[:2]), query
            assert sum(read) <= 1_000, (query, read)


async def test_walk_with_short_pages_gives_each_row_once(
    acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pagination, "PAGE_SCAN_MAX", 3)
    card = await acme.funded_card()
    for _ in range(7):
        await acme.load(card, "1.00")
    expected = [event["id"] for event in await walk(acme, "/v1/events", 100)]
    for types in ("ledger.entry.posted", "card.created", "card.updated"):
        found, cursor, pages = [], "", 0
        while True:
            page = await acme.get(f"/v1/events?limit=2&types={types}{cursor}")
            found += [event["id"] for event in page["data"] if event["type"] == types]
            pages += 1
            if not page["has_more"]:
                break
            cursor = f"&starting_after={page['next_cursor']}"
        of_type = [event for event in await walk(acme, "/v1/events", 100) if event["type"] == types]
        assert found == [event["id"] for event in of_type]
        assert pages >= len(expected) // 3


EVENTS = """
    INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)
    SELECT (substr(to_char(n, 'FM000000000000'), 1, 8) || '-' || substr(to_char(n, 'FM000000000000'), 9)
            || '-7000-8000-' || right(t.id::text, 8) || '0000')::uuid, t.id, false,
        CASE WHEN n % 2 = 0 THEN 'P' ELSE 'card.created' END, now(), '{}'
    FROM generate_series(1, 20000) n, tenants t
"""


async def test_pages_of_events_read_a_bounded_number_of_rows(
    settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second row of two tenants is two events; one page may scan 200."""
    async with rows_watched(settings, vault, monkeypatch, "event_rows", EVENTS) as (acme, read):
        shown: list[str] = []
        cursor = ""
        for query in (
            "limit=9",
            "limit=10&from=1970-01-01T00:00:00Z",
            "types=ledger.hold.created&limit=9",
            "types=card.updated",
            "from=1971-01-01T00:00:00Z&types=card.updated",
            f"authorization_id={new_id()}",
        ):
            read.clear()
            page = await acme.get(f"/v1/events?{query}{cursor}")
            assert sum(read) <= 1_000, (query, read)
            shown += [event["id"] for event in page["data"]]
            if page["has_more"]:
                cursor = f"&starting_after={page['next_cursor']}"
        assert shown == sorted(set(shown), reverse=True)
        assert len(shown) == 28


async def test_walk_over_events_gives_both_events_of_an_approval_once(acme: Caller) -> None:
    card = await acme.funded_card()
    spends = [await acme.spend(card, "1.00") for _ in range(3)]
    walks = [[event["id"] for event in await walk(acme, "/v1/events", limit)] for limit in (1, 2, 3, 100)]
    assert all(ids == sorted(set(ids), reverse=True) == walks[0] for ids in walks)
    for spend in spends:
        events = (await acme.get(f"/v1/events?authorization_id={spend['authorization_id']}"))["data"]
        assert sorted(event["type"] for event in events) == ["authorization.decided", "ledger.hold.created"]
        for event in events:
            assert event["id"] in walks[0]
            assert await acme.get(f"/v1/events/{event['id']}") == event
