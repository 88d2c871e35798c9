"""The pages of transfers, the ledger, settlement reports and exports."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from actors.ids import new_id
from api.exports.writing import write_next
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def transfer_of(account_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "account_id": account_id,
        "kind": "load",
        "direction": "credit",
        "amount.amount": "30.00",
        "amount.currency": "EUR",
        "description": "Salary <November>",
        "external_ref": "",
        **changes,
    }


async def available(caller: Caller, card: Any) -> str:
    return str((await caller.get(f"/v1/cards/{card['id']}/balance"))["available"])


async def test_transfer_is_posted_once_and_reversed(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    account_id = card["funding_account_id"]
    async with visitor(running, acme) as browser:
        page = (await browser.get("/transfers/new", account_id=account_id)).text
        assert f'value="{account_id}"' in page
        fields = transfer_of(account_id, key="one-key")
        made = await browser.post("/transfers/new", fields)
        assert (await browser.post("/transfers/new", fields)).headers["location"] == made.headers["location"]
        assert await available(acme, card) == "40.00"
        path = made.headers["location"].removeprefix("/console")
        page = (await browser.follow(made)).text
        assert "Salary &lt;November&gt;" in page
        assert len(re.findall(r"<td>(?:credit|debit)</td>", page)) == 2
        assert 'id="reverse"' in page
        page = (await browser.follow(await browser.post(f"{path}"))).text
        assert "The transfer is reversed." in page
        assert len(re.findall(r"<td>(?:credit|debit)</td>", page)) == 4
        assert 'id="reverse"' not in page
        assert await available(acme, card) == "10.00"
        assert 'role="alert"' in (await browser.post(path, None, 409)).text
    acts = (await acme.get(f"/v1/audit-log?object_id={account_id}"))["data"]
    acts += (await acme.get(f"/v1/audit-log?object_id={path.rpartition('/')[2]}"))["data"]
    assert {"create_transfer", "reverse_transfer"} <= {each["act"] for each in acts}


async def test_list_of_transfers_is_filtered(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    account_id = card["funding_account_id"]
    fee = {
        "account_id": account_id,
        "kind": "fee",
        "direction": "debit",
        "amount": {"amount": "1.25", "currency": "EUR"},
    }
    await acme.post("/v1/transfers", fee | {"external_ref": "monthly"})
    today = datetime.now(UTC).date()
    tomorrow, later = ((today + timedelta(days=days)).isoformat() for days in (1, 2))
    async with visitor(running, acme) as browser:
        for query, amounts in (
            ({}, ["−1.25", "+10.00"]),
            ({"kind": "fee"}, ["−1.25"]),
            ({"external_ref": "monthly", "account_id": account_id}, ["−1.25"]),
            ({"account_id": new_id()}, []),
            ({"programme_id": card["programme_id"], "last_day": tomorrow}, ["−1.25", "+10.00"]),
            ({"first_day": later}, []),
        ):
            page = (await browser.get("/transfers", **query)).text
            assert re.findall(r'class="amount">([+−][0-9.]+)', page) == amounts, query
        assert 'role="alert"' in (await browser.get("/transfers", 400, account_id="none")).text


async def test_refused_transfer_keeps_the_form(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    account_id = card["funding_account_id"]
    async with visitor(running, acme) as browser:
        wrong = transfer_of(account_id, **{"amount.amount": "0", "kind": "fee"})
        page = (await browser.post("/transfers/new", wrong, 400)).text
        assert 'id="amount.amount-error"' in page
        assert "Salary &lt;November&gt;" in page
        unload = transfer_of(account_id, kind="unload", direction="debit")
        page = (await browser.post("/transfers/new", unload, 409)).text
        assert 'role="alert"' in page
        page = (await browser.post("/transfers/new", transfer_of(new_id()), 404)).text
        assert 'id="account_id-error"' in page
    assert await available(acme, card) == "10.00"


async def test_ledger_shows_entries_of_an_account_a_transaction_or_a_transfer(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card("10.00")
    (transfer,) = (await acme.get("/v1/transfers"))["data"]
    async with visitor(running, acme) as browser:
        assert "<tbody>" not in (await browser.get("/ledger")).text
        page = (await browser.get("/ledger", account_id=card["funding_account_id"])).text
        assert page.count("<td>credit</td>") == 1
        assert "Available" in page
        page = (await browser.get("/ledger", subject="transfer_id", id=transfer["id"])).text
        assert (page.count("<td>credit</td>"), page.count("<td>debit</td>")) == (1, 1)
        assert "No entries." in (await browser.get("/ledger", authorization_id=new_id())).text
        assert 'role="alert"' in (await browser.get("/ledger", 400, account_id="none")).text


async def test_settlement_report_of_a_day(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "12.00")
    clear = {"amount": {"amount": "12.00", "currency": "EUR"}}
    cleared = await acme.post(f"/v1/simulated-spends/{spend['simulation_id']}/clear", clear, 202)
    await acme.simulation(cleared["simulation_id"])
    today = datetime.now(UTC).date().isoformat()
    async with visitor(running, acme) as browser:
        # The only programme is chosen already.
        page = (await browser.get("/settlement", date=today)).text
        assert "not over yet" in page
        assert page.count('class="amount">12.00') == 3
        page = (
            await browser.get("/settlement", 400, programme_id=card["programme_id"], date="2099-01-01")
        ).text
        assert "has not begun" in page
        await browser.get("/settlement", 404, programme_id=new_id(), date=today)


async def test_export_is_written_and_downloaded(running: Installation, acme: Caller) -> None:
    await running.services.pool.execute("DELETE FROM exports")
    card = await acme.funded_card("100.00")
    await acme.spend(card, "12.00")
    today = datetime.now(UTC).date()
    fields = {
        "kind": "transactions",
        "format": "csv",
        "first_day": (today - timedelta(days=1)).isoformat(),
        "last_day": (today + timedelta(days=1)).isoformat(),
    }
    async with visitor(running, acme) as browser:
        assert "No exports." in (await browser.get("/exports")).text
        made = await browser.post("/exports", fields)
        page = (await browser.follow(made)).text
        assert 'hx-trigger="every 1s"' in page
        assert await write_next(running.services)
        path = made.headers["location"].removeprefix("/console")
        fragment = await browser.http.get(f"/console{path}", headers={"HX-Request": "true"})
        assert "hx-get" not in fragment.text
        page = (await browser.get(path)).text
        address = re.search(r'href="(/v1/exports/[^"]+)" download', page)
        assert address is not None
        content = await browser.http.get(address[1].replace("&amp;", "&"))
        assert card["id"] in content.text
        assert path in (await browser.get("/exports")).text
        wrong = fields | {"first_day": "2020-01-01"}
        page = (await browser.post("/exports", wrong, 400)).text
        assert 'id="to-error"' in page
        assert 'value="2020-01-01"' in page


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card("10.00")
    (transfer,) = (await acme.get("/v1/transfers"))["data"]
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    export = await acme.post("/v1/exports", {"kind": "transactions", **window}, 202)
    path = f"/transfers/{transfer['id']}"
    # The role user may read accounts, and may not move money.
    user = await running.caller(tenant, role="user")
    async with visitor(running, user) as browser:
        assert 'id="reverse"' not in (await browser.get(path)).text
        assert "New transfer" not in (await browser.get("/transfers")).text
        await browser.get("/transfers/new", 403)
        await browser.post("/transfers/new", transfer_of(card["funding_account_id"]), 403)
        await browser.post(path, None, 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        await browser.get(path, 404)
        await browser.post(path, None, 404)
        await browser.get(f"/exports/{export['id']}", 404)
        assert "No entries." in (await browser.get("/ledger", account_id=card["funding_account_id"])).text
        await browser.get("/settlement", 404, programme_id=card["programme_id"], date="2026-01-01")
    assert await available(acme, card) == "10.00"
