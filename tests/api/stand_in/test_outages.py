"""Outages of a programme's endpoint and their budgets."""

from __future__ import annotations

from typing import Any

from tests.support.api.delegation import declare, delegated_card, money, policy, put_policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def silence(caller: Caller, card: Any, amount: str) -> Any:
    return await caller.spend(card, amount, scenario="delegated_timeout")


async def test_outage_has_a_budget_for_each_currency_of_its_policy(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    path = f"/v1/programs/{card['programme_id']}/outages"
    assert await acme.get(path) == {"data": [], "has_more": False, "next_cursor": None}
    await silence(acme, card, "10.00")
    [outage] = (await acme.get(path))["data"]
    assert outage == {
        "id": outage["id"],
        "programme_id": card["programme_id"],
        "started_at": outage["started_at"],
        "ended_at": None,
        "budgets": [{"currency": "EUR", "used": "10.00"}],
    }
    await put_policy(acme, card["programme_id"], policy(max_total_exposure=money("50.00", "USD")))
    await silence(acme, card, "1.00")
    [changed] = (await acme.get(path))["data"]
    budgets = [{"currency": "EUR", "used": "10.00"}, {"currency": "USD", "used": "0.00"}]
    assert changed == outage | {"budgets": budgets}


async def test_outages_are_paged_newest_first(running: Installation, acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    path = f"/v1/programs/{card['programme_id']}/outages"
    await running.services.pool.execute(
        "INSERT INTO outages"
        " (id, period, tenant_id, live, programme_id, currency, used_minor, started_at, ended_at)"
        " SELECT $2::uuid, 1, tenant_id, live, id, NULL, 0, now() - interval '1 day',"
        " now() - interval '23 hours' FROM programmes WHERE id = $1::uuid",
        card["programme_id"],
        "01900000-0000-7000-8000-000000000001",
    )
    await declare(acme, card, "100.00")
    await silence(acme, card, "1.00")
    first = await acme.get(f"{path}?limit=1")
    assert (first["data"][0]["ended_at"], first["has_more"]) == (None, True)
    second = await acme.get(f"{path}?limit=1&starting_after={first['next_cursor']}")
    [ended] = second["data"]
    assert (ended["budgets"], second["has_more"]) == ([{"currency": None, "used": "0.00"}], False)
    assert ended["started_at"] < ended["ended_at"] < first["data"][0]["started_at"]
