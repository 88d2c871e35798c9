"""Filters of the list of transactions: their results, and the work of a page beside a busy tenant."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from actors.settings import Settings
from actors.vault import Vault
from api.database.pool import connected
from api.exports.columns import ExportKind, planner_settings, statement
from api.operations import pagination
from api.transactions import filters
from loadtests.generators.history import (
    DECLINED_EACH,
    FREQUENT_MCC,
    FREQUENT_REASON,
    RARE_MCC,
    RARE_REASON,
    RARE_ROWS,
    Life,
    fill,
)
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, installation

ROWS = 20_000
SCAN_MAX = 400


async def ids(caller: Caller, query: str) -> list[str]:
    """The transactions of all pages."""
    found: list[str] = []
    cursor = ""
    while True:
        page = await caller.get(f"/v1/transactions?{query}{cursor}")
        found += [row["id"] for row in page["data"]]
        if not page["has_more"]:
            return found
        cursor = f"&starting_after={page['next_cursor']}"


async def test_each_filter_finds_its_transactions(acme: Caller) -> None:
    first = await acme.funded_card("50.00")
    programme = await acme.get(f"/v1/programs/{first['programme_id']}")
    holder = await acme.get(f"/v1/cardholders/{first['cardholder_id']}")
    sibling = await acme.card(await acme.product(programme), holder)
    other = await acme.funded_card("50.00")
    await acme.load(sibling, "5.00")
    spends = [
        await acme.spend(first, "1.00"),
        await acme.spend(sibling, "2.00", mcc="7995"),
        await acme.spend(first, "99.00", mcc="7995"),
        await acme.spend(other, "3.00", mcc="7995"),
        await acme.spend(other, "4.00", kind="refund"),
    ]
    force = await acme.post(
        "/v1/simulated-clearings",
        {
            "card_id": other["id"],
            "amount": {"amount": "1.00", "currency": "EUR"},
            "mcc": "4111",
            "merchant_name": "M",
        },
        202,
    )
    spends.append(await acme.simulation(force["simulation_id"]))
    one, two, declined, three, refund, posted = (spend["transaction_id"] for spend in spends)
    expected = {
        "": [posted, refund, three, declined, two, one],
        f"card_id={first['id']}": [declined, one],
        f"cardholder_id={holder['id']}": [declined, two, one],
        f"cardholder_id={holder['id']}&mcc=7995": [declined, two],
        f"programme_id={programme['id']}": [declined, two, one],
        f"programme_id={programme['id']}&mcc=7995": [declined, two],
        f"programme_id={programme['id']}&cardholder_id={holder['id']}&mcc=5411": [one],
        "mcc=7995": [three, declined, two],
        "mcc=7995&decision=approved": [three, two],
        "mcc=0000": [],
        "decision=declined": [declined],
        "decision=approved": [refund, three, two, one],
        "decline_reason=insufficient_funds": [declined],
        "decline_reason=card_lost": [],
        "status=declined": [declined],
        "status=declined&decision=declined": [declined],
        "status=declined&decision=approved": [],
        "kind=force_post": [posted],
        "kind=force_post&decision=approved": [],
        f"rrn={spends[1]['rrn']}": [two],
        f"rrn={spends[1]['rrn']}&mcc=5411": [],
        f"network_txn_id={spends[3]['network_txn_id']}": [three],
        "rrn=999999999999": [],
    }
    for query, found in expected.items():
        assert await ids(acme, query) == found, query
        assert await ids(acme, f"limit=1&{query}") == found, query
    at = (await acme.get(f"/v1/transactions/{declined}"))["created_at"]
    for query, found in (
        ("mcc=7995", [three, declined]),
        ("decision=declined", [declined]),
        ("", [posted, refund, three, declined]),
    ):
        assert await ids(acme, f"{query}&from={at}") == found, query
        assert declined not in await ids(acme, f"{query}&to={at}")


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("mcc=541", "/mcc"),
        ("decision=maybe", "/decision"),
        ("decline_reason=because", "/decline_reason"),
        ("rrn=", "/rrn"),
        ("rrn=1234567890123", "/rrn"),
        ("network_txn_id=", "/network_txn_id"),
    ],
)
async def test_invalid_filter_is_refused(acme: Caller, query: str, pointer: str) -> None:
    problem = await acme.get(f"/v1/transactions?{query}", 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_too_many_ranges_fall_back_to_the_tenant_rows(
    acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(filters, "PAGE_KEYS_MAX", 0)
    card = await acme.funded_card("50.00")
    spend = await acme.spend(card, "1.00")
    for query in (
        f"cardholder_id={card['cardholder_id']}",
        f"programme_id={card['programme_id']}",
        "mcc=5411",
    ):
        assert await ids(acme, query) == [spend["transaction_id"]]
    assert await ids(acme, "mcc=5412") == []


@dataclass
class Cost:
    """The work of the statements of one page."""

    rows: float = 0.0
    buffers: int = 0
    scans: set[str] = field(default_factory=set)

    def add(self, plan: dict[str, Any]) -> None:
        self.buffers += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        for part in _parts(plan):
            if part.get("Relation Name") == "transactions":
                read = part["Actual Rows"] + part.get("Rows Removed by Filter", 0)
                self.rows += read * part["Actual Loops"]
                self.scans.add(f"{part['Node Type']} {part.get('Index Name', '')}".strip())


def _parts(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for part in plan.get("Plans", ()):
        yield from _parts(part)


@dataclass
class Explained:
    """A connection that adds the cost of its statements to ``cost``."""

    connection: Any
    cost: Cost

    async def fetch(self, statement: str, *values: Any) -> Any:
        text = await self.connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {statement}", *values)
        self.cost.add(json.loads(text)[0]["Plan"])
        return await self.connection.fetch(statement, *values)

    async def fetchval(self, statement: str, *values: Any) -> Any:
        rows = await self.fetch(statement, *values)
        return rows[0][0] if rows else None


async def life_of(caller: Caller) -> Life:
    """A tenant with three programmes; one of them has a single card."""
    programmes = [await caller.programme() for _ in range(3)]
    holders = [await caller.cardholder(programme) for programme in programmes]
    products = [await caller.product(programme) for programme in programmes]
    cards = [await caller.card(products[n % 2], holders[n % 2]) for n in range(8)]
    rare = await caller.card(products[2], holders[2])
    await caller.load(cards[0], "10.00")
    approved, declined = await caller.spend(cards[0], "1.00"), await caller.spend(cards[0], "99.00")
    return Life(
        approved["transaction_id"], declined["transaction_id"], rare["id"], [card["id"] for card in cards]
    )


async def _assert_exports_stream(running: Installation, life: Life) -> None:
    """Their plans begin with the first row and read no table as a whole."""
    find = "SELECT tenant_id::text FROM cards WHERE id = $1::uuid"
    tenant = await running.services.pool.fetchval(find, life.rare_card)
    begin, end = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    kinds: tuple[ExportKind, ...] = ("transactions", "decisions")
    for kind in kinds:
        values = (tenant, False, begin, end, pagination.FIRST_ID, pagination.LAST_ID)
        explain = f"EXPLAIN (FORMAT JSON) {statement(kind, 'csv')}"
        async with running.services.pool.acquire() as connection, connection.transaction():
            for name, value in planner_settings(kind).items():
                await connection.execute(f"SET LOCAL {name} = '{value}'")
            plan = json.loads(await connection.fetchval(explain, *values))[0]["Plan"]
        nodes = {(part["Node Type"], part.get("Relation Name")) for part in _parts(plan)}
        whole = {"Hash Join", "Merge Join", "Sort", "Gather", "Gather Merge"} & {node for node, _ in nodes}
        assert not whole, (kind, nodes)
        assert {("Seq Scan", "transactions"), ("Seq Scan", "journal")}.isdisjoint(nodes), (kind, nodes)


async def test_pages_cost_little_beside_a_busy_tenant(
    settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two tenants have the same history. `python -m loadtests.filters` has a million rows of each."""
    monkeypatch.setattr(pagination, "PAGE_SCAN_MAX", SCAN_MAX)
    cost = Cost()

    @asynccontextmanager
    async def explained(pool: Any) -> AsyncIterator[Explained]:
        async with connected(pool) as connection:
            yield Explained(connection, cost)

    async with installation(settings, vault) as running:
        acme, busy = await running.caller(), await running.caller("busy")
        life = await life_of(acme)
        async with running.services.pool.acquire() as connection:
            await connection.execute("SET statement_timeout = 0")
            await fill(connection, life, ROWS)
            await fill(connection, await life_of(busy), ROWS)
        await running.execute("VACUUM (ANALYZE) transaction_rows", "VACUUM (ANALYZE) journal_rows")
        monkeypatch.setattr(pagination, "connected", explained)
        monkeypatch.setattr(filters, "connected", explained)
        rare = await acme.get(f"/v1/cards/{life.rare_card}")
        frequent = await acme.get(f"/v1/cards/{life.cards[0]}")
        # Rows on the first page, and rows of the table that it may read.
        cases = {
            "": (50, 110),
            f"card_id={frequent['id']}": (50, 110),
            f"card_id={rare['id']}": (RARE_ROWS, 50),
            f"cardholder_id={frequent['cardholder_id']}": (50, 400),
            f"cardholder_id={rare['cardholder_id']}": (RARE_ROWS, 50),
            f"programme_id={frequent['programme_id']}": (50, 2_500),
            f"programme_id={rare['programme_id']}": (RARE_ROWS, 60),
            f"programme_id={frequent['programme_id']}&mcc={FREQUENT_MCC}": (50, 110),
            f"mcc={FREQUENT_MCC}": (50, 400),
            f"mcc={RARE_MCC}": (RARE_ROWS, 60),
            f"decline_reason={FREQUENT_REASON}": (50, 110),
            f"decline_reason={RARE_REASON}": (RARE_ROWS, 50),
            "decision=declined": (50, 250),
            "decision=approved": (50, 900),
            "status=declined": (50, 700),
            "status=reversed": (None, 1_000),
            "status=pending": (None, 1_000),
            "kind=refund": (None, 1_000),
            "rrn=000000012345": (1, 10),
            "from=2026-01-01T00:00:00Z&to=2026-01-01T01:00:00Z": (None, 1_000),
            f"mcc={RARE_MCC}&status=reversed": (None, 60),
            f"card_id={frequent['id']}&decline_reason={RARE_REASON}": (None, 1_000),
            f"card_id={frequent['id']}&mcc={RARE_MCC}": (None, 1_000),
        }
        for query, (expected, rows_max) in cases.items():
            cost = Cost()
            page = await acme.get(f"/v1/transactions?{query}")
            assert expected is None or len(page["data"]) == expected, (query, cost)
            assert "Seq Scan" not in cost.scans, (query, cost)
            assert cost.rows <= rows_max, (query, cost)
            assert cost.buffers <= 6 * rows_max + 1_000, (query, cost)
        await _assert_exports_stream(running, life)
        assert len(await ids(acme, "decision=declined&limit=100")) == ROWS // DECLINED_EACH + RARE_ROWS + 1
