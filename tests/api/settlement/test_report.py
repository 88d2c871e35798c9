"""Settlement reports: their sums are those of the ledger, for each network, currency and day."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from api.settlement.report import window_of
from engine.ids import Derived, derive
from ops.audit.settlement import SETTLEMENT
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

EMPTY = {"count": 0, "amount": "0.00"}


def today(timezone: str = "UTC", days: int = 0) -> str:
    return (datetime.now(ZoneInfo(timezone)) + timedelta(days=days)).strftime("%Y-%m-%d")


async def report(caller: Caller, programme: Any, date: str) -> Any:
    return await caller.get(f"/v1/settlement-reports?programme_id={programme['id']}&date={date}")


async def follow(caller: Caller, spend: Any, action: str, **body: Any) -> None:
    path = f"/v1/simulated-spends/{spend['simulation_id']}/{action}"
    await caller.simulation((await caller.post(path, body, 202))["simulation_id"])


def euros(amount: str) -> dict[str, str]:
    return {"amount": amount, "currency": "EUR"}


async def test_report_sums_what_was_authorized_presented_and_refunded(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme(timezone="Pacific/Auckland")
    holder = await acme.cardholder(programme)
    visa = await acme.card(await acme.product(programme), holder)
    product = await acme.product(programme, network="mastercard", iin="521000")
    mastercard = await acme.card(product, holder, funding_account_id=visa["funding_account_id"])
    await acme.load(visa, "100.00")
    sale = await acme.spend(visa, "10.00")
    await follow(acme, sale, "increment", raise_by_amount=euros("2.00"))
    await follow(acme, sale, "clear", amount=euros("13.00"))
    await acme.spend(visa, "1.00")
    await acme.spend(visa, "1000.00")
    await acme.spend(visa, "4.00", kind="refund")
    force = {"card_id": mastercard["id"], "amount": euros("0.50"), "mcc": "4111", "merchant_name": "M"}
    await acme.simulation((await acme.post("/v1/simulated-clearings", force, 202))["simulation_id"])
    # Another programme of the tenant.
    await acme.spend(await acme.funded_card("5.00"), "1.00")
    shown = await report(acme, programme, today("Pacific/Auckland"))
    assert shown["lines"] == [
        {
            "network": "mastercard",
            "currency": "EUR",
            "authorized": EMPTY,
            "presented": {"count": 1, "amount": "0.50"},
            "refunded": EMPTY,
            "fees": EMPTY,
            "net": "0.50",
        },
        {
            "network": "visa",
            "currency": "EUR",
            "authorized": {"count": 2, "amount": "13.00"},
            "presented": {"count": 1, "amount": "13.00"},
            "refunded": {"count": 1, "amount": "4.00"},
            "fees": EMPTY,
            "net": "9.00",
        },
    ]
    assert (shown["timezone"], shown["final"]) == ("Pacific/Auckland", False)
    assert shown["from"] <= shown["as_of"] < shown["to"]
    balance = """
        SELECT sum(CASE direction WHEN 'credit' THEN amount_minor ELSE -amount_minor END)
        FROM ledger_entries WHERE account_id = $1::uuid
    """
    settlement = derive(programme["id"], Derived.SETTLEMENT)
    assert await running.services.pool.fetchval(balance, settlement) == 950
    audited = await running.services.pool.fetch(SETTLEMENT)
    assert audited
    assert all(row[1] for row in audited)
    assert (await report(acme, programme, today("Pacific/Auckland", -1)))["lines"] == []


async def test_fees_are_shown_and_leave_the_net_amount(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    card = await acme.card(await acme.product(programme), await acme.cardholder(programme))
    await acme.load(card, "10.00")

    async def charge(kind: str, amount: str) -> Any:
        body = {"account_id": card["funding_account_id"], "direction": "debit", "kind": kind}
        return await acme.post("/v1/transfers", body | {"amount": euros(amount)}, 201)

    await charge("unload", "1.00")
    await charge("fee", "0.75")
    reversed_fee = await charge("fee", "2.00")
    await acme.post(f"/v1/transfers/{reversed_fee['id']}/reverse", {}, 200)
    [line] = (await report(acme, programme, today()))["lines"]
    assert (line["network"], line["fees"], line["net"]) == ("visa", {"count": 3, "amount": "0.75"}, "0.00")
    assert line["presented"] == line["refunded"] == line["authorized"] == EMPTY
    assert all(row[1] for row in await running.services.pool.fetch(SETTLEMENT))


async def test_report_of_an_earlier_day_is_final(acme: Caller) -> None:
    shown = await report(acme, await acme.programme(), today(days=-2))
    assert (shown["final"], shown["lines"]) == (True, [])


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("date=2026-11-21", "/programme_id"),
        ("programme_id={id}", "/date"),
        ("programme_id={id}&date=21.11.2026", "/date"),
        ("programme_id={id}&date=2026-02-30", "/date"),
        ("programme_id={id}&date=2099-01-01", "/date"),
    ],
)
async def test_invalid_query_is_refused(acme: Caller, query: str, pointer: str) -> None:
    programme = await acme.programme()
    problem = await acme.get(f"/v1/settlement-reports?{query.format(id=programme['id'])}", 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_report_of_another_tenants_programme_is_unknown(
    running: Installation, acme: Caller, tenant: str
) -> None:
    other = await running.caller(f"{tenant}-other")
    programme = await other.programme()
    await acme.get(f"/v1/settlement-reports?programme_id={programme['id']}&date={today()}", 404)


def test_days_with_a_clock_change_have_23_or_25_hours() -> None:
    for date, hours in (("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)):
        begin, end = window_of(date, "Europe/Dublin")
        assert (end.timestamp() - begin.timestamp()) / 3_600 == hours
