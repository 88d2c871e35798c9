"""Back-tests over the API: figures, flips, limits, cancellation, and servers or tasks that end."""

from __future__ import annotations

import asyncio
import csv
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio

from actors.backtests import store, work
from actors.tasks import LocalTasks, TaskFailedError
from api.backtests import leading
from api.backtests.leading import BacktestLeader, lead, take
from engine.limits import BACKTEST_ATTEMPTS_MAX, BACKTEST_KEEP_DAYS, BACKTESTS_OPEN_MAX
from tests.support.api.delegation import money
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

NO_GAMBLING = {"controls": {"add": [{"kind": "mcc_deny", "values": ["7995"]}]}}


@pytest_asyncio.fixture(loop_scope="session", autouse=True)
async def _no_open_backtests(running: Installation) -> Any:
    """Back-tests of other tests do not wait in this test's queue."""
    await running.services.pool.execute("DELETE FROM backtests")


def plan(card: Any, change: Any, scope: str = "programme", **fields: Any) -> dict[str, Any]:
    """A request: from a day ago to a day ahead."""
    now = datetime.now(UTC)
    begin, end = ((now + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ") for days in (-1, 1))
    ids = {"programme": card["programme_id"], "card_product": card["card_product_id"], "card": card["id"]}
    return {"scope": {"type": scope, "id": ids[scope]}, "from": begin, "to": end, "change": change} | fields


async def lead_next(running: Installation) -> None:
    """Lead the next back-test to its end."""
    taken = await take(running.services)
    assert taken is not None
    await lead(running.services, LocalTasks(running.services.settings), taken)


async def ran(running: Installation, caller: Caller, body: Any) -> Any:
    """A back-test that has ended."""
    created = await caller.post("/v1/backtests", body, 202)
    assert (created["state"], created["progress"]) == ("queued", {"cards_done": 0, "cards": None})
    assert created["before"] is created["flips"] is created["started_at"] is None
    await lead_next(running)
    return await caller.get(f"/v1/backtests/{created['id']}")


async def flips_of(caller: Caller, backtest: Any, query: str = "") -> list[Any]:
    found: list[Any] = (await caller.get(f"/v1/backtests/{backtest['id']}/flips?limit=100{query}"))["data"]
    return found


def counts(backtest: Any) -> dict[str, tuple[int, str]]:
    """Count and amount of the flips."""
    return {name: (part["count"], part["amount"]) for name, part in backtest["flips"].items()}


async def test_decline_frees_money_for_a_later_purchase(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    bet = await acme.spend(card, "80.00", mcc="7995")
    food = await acme.spend(card, "50.00")
    assert (bet["decision"], food["decision"]) == ("approved", "declined")
    done = await ran(running, acme, plan(card, NO_GAMBLING))
    assert (done["state"], done["failure"]) == ("done", None), done
    assert done["progress"] == {"cards_done": 1, "cards": 1}
    assert done["baseline"] == {"decisions": 2, "mismatches": 0, "examples": [], "cards_left_out": 0}
    side = {"decisions": 2, "approved": 1, "declined": 1, "not_sent": 0}
    assert done["before"] == side | {"approved_amount": "80.00"}
    assert done["after"] == side | {"approved_amount": "50.00"}
    assert counts(done) == {"approved_to_declined": (1, "80.00"), "declined_to_approved": (1, "50.00")}
    assert [row["rule"] for row in done["by_rule"]] == ["funds", "mcc_deny"]
    assert [row["mcc"] for row in done["by_mcc"]] == ["5411", "7995"]
    assert [row["approved_to_declined"]["count"] for row in done["by_day"]] == [1]
    assert (done["currency"], done["change"]) == ("EUR", NO_GAMBLING)
    gained, lost = await flips_of(acme, done)
    assert (lost["id"], gained["id"]) == (bet["transaction_id"], food["transaction_id"])
    assert (lost["before"]["decision"], lost["after"]["decline_reason"]) == ("approved", "mcc_not_allowed")
    assert lost["after"]["trace"][-1] == {"rule": "mcc_deny", "outcome": "fail", "observed": "7995", "limit": None}
    assert gained["before"]["trace"][-1]["observed"] == "20.00"
    assert (gained["direction"], gained["after"]["approved_amount"]) == ("declined_to_approved", "50.00")
    recorded = await acme.get(f"/v1/transactions/{bet['transaction_id']}")
    assert lost["before"]["trace"] == recorded["trace"]
