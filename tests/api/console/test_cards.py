"""The pages of cards, accounts and cardholders, and the actions on them."""

from __future__ import annotations

import re
import uuid
from typing import Any

import pytest

from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.console.people import person
from tests.support.api.console.visitor import Visitor, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

PAN = re.compile(r"(?<![0-9])4000[0-9]{2}[ -]?[0-9]{6,13}")
"""Whole numbers of test cards: the product's prefix and the digits after it."""


async def acts(owner: Caller, card_id: str) -> list[tuple[str, str]]:
    """The acts on an object with the ids of their actors, newest first."""
    found = (await owner.get(f"/v1/audit-log?object_id={card_id}"))["data"]
    return [(each["act"], each["actor"]["id"]) for each in found]


async def shown(browser: Visitor, card: Any) -> str:
    return (await browser.get(f"/cards/{card['id']}")).text


async def test_list_has_filters(running: Installation, acme: Caller) -> None:
    first = await acme.funded_card()
    second = await acme.funded_card(external_ref="ours-2")
    await acme.patch(f"/v1/cards/{second['id']}", {"state": "suspended"})
    async with visitor(running, acme) as browser:
        for query, cards in (
            ({}, [second, first]),
            ({"last4": first["last4"]}, [first]),
            ({"state": "suspended"}, [second]),
            ({"external_ref": "ours-2"}, [second]),
            ({"cardholder_id": first["cardholder_id"]}, [first]),
            ({"programme_id": first["programme_id"], "state": "suspended"}, []),
        ):
            page = (await browser.get("/cards", **query)).text
            found = re.findall(r'<tr>\s*<td><a href="/console/cards/([0-9a-f-]+)"', page)
            assert found == [card["id"] for card in cards], query
        assert "No cards match" in page
        assert 'id="last4-error"' in (await browser.get("/cards", 400, last4="x")).text


async def test_card_page_shows_money_limits_rules_and_no_number(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card(
        "100.00",
        controls=[
            {"kind": "per_day_amount_cap", "amount": "40.00"},
            {"kind": "mcc_deny", "values": ["7995", "7801"]},
        ],
        metadata={"team": "<b>red</b>"},
    )
    await acme.post(RULES, rule_of("card", card["id"], state="active"))
    await acme.spend(card, "15.00")
    await acme.spend(card, "1.00", mcc="5999", merchant_country="FR")
    async with visitor(running, acme) as browser:
        page = await shown(browser, card)
        assert "Ada Lovelace" in page
        assert "84.00" in page
        assert "24.00" in page, "the rest of the cap of the day is the headroom"
        assert 'max="40.00" value="16.00"' in page
        assert "7995, 7801" in page
        assert "no_gambling" in page
        assert "&lt;b&gt;red&lt;/b&gt;" in page
        assert page.count('<tr id="t-') == 2
        assert not PAN.search(page)
        page = (await browser.get(f"/cards/{card['id']}", mcc="7995", channel="ecommerce")).text
        assert "mcc not allowed" in page
        page = (await browser.get(f"/cards/{card['id']}", mcc="nonsense")).text
        assert "Headroom" in page


async def test_card_is_frozen_and_unfrozen_with_an_entry_in_the_audit_log(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card, me = await acme.funded_card(), await person(running, tenant, role="admin")
    path = f"/cards/{card['id']}/state"
    async with visitor(running, me) as browser:
        answer = await browser.post(path, {"state": "suspended", "reason": "asked by phone"})
        page = (await browser.follow(answer)).text
        assert "The card is frozen" in page
        assert "asked by phone" in page
        assert ">Unfreeze<" in page
        assert (await acme.get(f"/v1/cards/{card['id']}"))["state"] == "suspended"
        await browser.post(path, {"state": "active"})
        assert (await acts(acme, card["id"]))[:2] == [("update_card", me.id), ("update_card", me.id)]
        # A transition that is not there, and a state that is none.
        for state, status in (("unactivated", 409), ("nonsense", 400)):
            page = (await browser.post(path, {"state": state}, status)).text
            assert 'role="alert"' in page
        await browser.post(path, {"state": "terminated"})
        page = await shown(browser, card)
        assert "Simulate a spend" not in page
        assert ">Freeze<" not in page


def control_rows(*rows: tuple[str, str], do: str = "save") -> dict[str, str]:
    """The fields of the form of controls."""
    fields = {"do": do}
    for place, (kind, value) in enumerate(rows):
        fields |= {f"controls.{place}.kind": kind, f"controls.{place}.value": value}
    return fields


async def test_controls_are_edited_as_rows(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card(controls=[{"kind": "per_txn_cap", "amount": "50.00"}])
    path = f"/cards/{card['id']}/controls"
    async with visitor(running, acme) as browser:
        form = (await browser.get(path)).text
        assert 'value="50.00"' in form
        assert form.count(".kind") > 0
        added = control_rows(("per_txn_cap", "50.00"), do="add:controls")
        assert "controls.1.kind" in (await browser.post(path, added, 200)).text
        rows = control_rows(
            ("per_txn_cap", "60.00"),
            ("", ""),
            ("mcc_allow", "5411, 5812"),
            ("per_day_cap", "3"),
            ("country_deny", "fr"),
        )
        page = (await browser.follow(await browser.post(path, rows))).text
        assert "The controls of the card are changed" in page
        # In the order of evaluation.
        expected = [
            {"kind": "mcc_allow", "values": ["5411", "5812"]},
            {"kind": "country_deny", "values": ["FR"]},
            {"kind": "per_txn_cap", "amount": "60.00"},
            {"kind": "per_day_cap", "count": 3},
        ]
        assert (await acme.get(f"/v1/cards/{card['id']}"))["controls"] == expected
        # Each bad row is named; nothing has changed, and what was entered stays.
        rows = control_rows(("per_txn_cap", "1.00"), ("mcc_allow", "54"), ("per_day_cap", "many"))
        page = (await browser.post(path, rows, 400)).text
        assert 'id="controls.0-error"' not in page
        assert 'id="controls.1-error"' in page
        assert 'id="controls.2-error"' in page
        assert 'value="many"' in page
        assert (await acme.get(f"/v1/cards/{card['id']}"))["controls"] == expected
        await browser.post(path, control_rows(("", "")))
        assert (await acme.get(f"/v1/cards/{card['id']}"))["controls"] == []


async def test_form_sent_twice_acts_once(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    path = f"/cards/{card['id']}"
    async with visitor(running, acme) as browser:
        for name, fields in (
            ("load", {"amount": "25.00", "currency": "EUR"}),
            ("spend", {"amount": "5.00", "mcc": "5411", "merchant_name": "Shop", "channel": "pos"}),
            ("replace", {"reason": "damaged"}),
        ):
            key = {"key": str(uuid.uuid4())}
            answers = [await browser.post(f"{path}/{name}", fields | key) for _ in range(2)]
            assert answers[0].headers["location"] == answers[1].headers["location"], name
    assert len((await acme.get(f"/v1/transactions?card_id={card['id']}"))["data"]) == 1
    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["posted"], balance["held"]) == ("125.00", "5.00")
    assert len((await acme.get(f"/v1/cards?cardholder_id={card['cardholder_id']}"))["data"]) == 2
    assert [act for act, _ in await acts(acme, card["id"])].count("replace_card") == 1


async def test_spend_goes_to_its_transaction(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    path = f"/cards/{card['id']}/spend"
    fields = {"amount": "12.00", "mcc": "5411", "merchant_name": "Corner Shop", "channel": "pos"}
    async with visitor(running, acme) as browser:
        assert 'name="scenario"' in (await browser.get(path)).text
        page = (await browser.follow(await browser.post(path, fields))).text
        assert "Approved: 12.00 EUR." in page
        converted = fields | {"merchant_amount": "2500", "merchant_currency": "JPY", "merchant_country": "JP"}
        page = (await browser.follow(await browser.post(path, converted))).text
        assert "2500" in page
        page = (await browser.follow(await browser.post(path, fields | {"amount": "900.00"}))).text
        assert "Declined: insufficient funds." in page
        page = (await browser.post(path, fields | {"amount": "12,00", "mcc": ""}, 400)).text
        assert 'id="amount-error"' in page
        assert 'id="mcc-error"' in page
        assert 'value="12,00"' in page
        await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
        page = (await browser.post(path, fields, 409)).text
        assert 'role="alert"' in page
    assert len((await acme.get(f"/v1/transactions?card_id={card['id']}"))["data"]) == 3


async def test_bad_load_is_refused_at_its_field(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    async with visitor(running, acme) as browser:
        for amount in ("", "-1", "1.234", "0"):
            page = await browser.post(f"/cards/{card['id']}/load", {"amount": amount, "currency": "EUR"}, 400)
            assert 'id="amount-error"' in page.text, amount
        answer = await browser.post(f"/cards/{card['id']}/load", {"amount": "5.00", "currency": "EUR"})
        assert "Loaded 5.00 EUR; available 15.00." in (await browser.follow(answer)).text


async def test_number_is_shown_by_the_page_of_a_reveal_session_only(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        assert "Show the number" not in await shown(browser, card)
        await browser.post(f"/cards/{card['id']}/reveal", status=403)
    revealing = await person(running, tenant, role="user", reveal=True)
    async with visitor(running, revealing) as browser:
        assert "Show the number" in await shown(browser, card)
        answer = await browser.post(f"/cards/{card['id']}/reveal", status=200)
        address = running.services.settings.vision_address
        link = re.search(r'href="([^"]+)"[^>]* id="reveal-link"', answer.text)
        assert link is not None
        assert re.fullmatch(rf"{re.escape(address)}/reveal/[0-9a-f-]{{36}}#rvl_[\w-]+", link[1])
        assert not PAN.search(answer.text)
        assert answer.headers["cache-control"] == "no-store"
        assert "img-src 'self'" in answer.headers["content-security-policy"]
    assert ("create_reveal_session", revealing.id) in await acts(acme, card["id"])


async def test_session_without_write_scopes_sees_no_actions(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    reader = await running.caller(
        acme.credentials.name, role="user", scopes=("cards:read", "cardholders:read", "transactions:read")
    )
    async with visitor(running, reader) as browser:
        page = await shown(browser, card)
        holder = (await browser.get(f"/cardholders/{card['cardholder_id']}")).text
        for action in ("Freeze", "Terminate", "Replace", "Load", "Simulate a spend", "Edit", "Block"):
            assert f">{action}<" not in page + holder, action
        for path, fields in (
            ("state", {"state": "suspended"}),
            ("controls", {"kind": "", "value": ""}),
            ("load", {"amount": "1.00", "currency": "EUR"}),
            ("spend", {"amount": "1.00"}),
            ("replace", {"reason": "lost"}),
            ("reveal", {}),
        ):
            await browser.post(f"/cards/{card['id']}/{path}", fields, 403)
        await browser.post(f"/cardholders/{card['cardholder_id']}/status", {"status": "blocked"}, 403)
    assert (await acme.get(f"/v1/cards/{card['id']}"))["state"] == "active"


async def test_objects_of_others_are_not_found(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card()
    other = await running.caller(f"{tenant}-other")
    async with visitor(running, other) as browser:
        for path in (
            f"/cards/{card['id']}",
            f"/cards/{card['id']}/spend",
            f"/cards/{card['id']}/controls",
            f"/cards/{card['id']}/evaluate",
            f"/accounts/{card['funding_account_id']}",
            f"/cardholders/{card['cardholder_id']}",
            "/cards/x",
            "/accounts/' OR 1=1",
        ):
            await browser.get(path, 404)
        for path, fields in (
            (f"/cards/{card['id']}/state", {"state": "terminated"}),
            (f"/cards/{card['id']}/controls", {"kind": "", "value": ""}),
            (f"/cards/{card['id']}/load", {"amount": "1.00", "currency": "EUR"}),
            (f"/cards/{card['id']}/replace", {"reason": "lost"}),
            (f"/cards/{card['id']}/spend", {"amount": "1.00"}),
            (f"/cardholders/{card['cardholder_id']}/status", {"status": "closed"}),
        ):
            await browser.post(path, fields, 404)
    assert await acme.get(f"/v1/cards/{card['id']}") == card | {"metadata": card["metadata"]}


@pytest.mark.parametrize("activate", ["", "true", "false"])
async def test_replacement_leads_to_the_new_card(running: Installation, acme: Caller, activate: str) -> None:
    card = await acme.funded_card()
    async with visitor(running, acme) as browser:
        assert "damaged" in (await browser.get(f"/cards/{card['id']}/replace")).text
        fields = {"reason": "stolen", "activate": activate}
        answer = await browser.post(f"/cards/{card['id']}/replace", fields)
        new_id = answer.headers["location"].rpartition("/")[2]
        page = (await browser.follow(answer)).text
        assert f'href="/console/cards/{card["id"]}"' in page
        assert f'href="/console/cards/{new_id}"' in await shown(browser, card)
        page = (await browser.post(f"/cards/{card['id']}/replace", fields, 409)).text
        assert 'role="alert"' in page
    assert (await acme.get(f"/v1/cards/{new_id}"))["state"] == (
        "unactivated" if activate == "false" else "active"
    )
    assert (await acme.get(f"/v1/cards/{card['id']}"))["state"] == "stolen"


async def test_accounts_show_balances_and_entries(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("30.00")
    async with visitor(running, acme) as browser:
        page = (await browser.get("/accounts")).text
        assert card["funding_account_id"] in page
        assert page.count("<tr>") == 1 + 3, "the card's account, the funding source, the settlement account"
        page = (await browser.get("/accounts", kind="card", programme_id=card["programme_id"])).text
        assert page.count("<tr>") == 1 + 1
        page = (await browser.get(f"/accounts/{card['funding_account_id']}")).text
        assert "30.00" in page
        assert "credit" in page


async def test_cardholder_is_blocked_and_unblocked(running: Installation, acme: Caller, tenant: str) -> None:
    card, me = await acme.funded_card(), await person(running, tenant, role="admin")
    path = f"/cardholders/{card['cardholder_id']}"
    async with visitor(running, me) as browser:
        page = (await browser.get("/cardholders", email="ada@example.com")).text
        assert "Ada Lovelace" in page
        page = (await browser.get("/cardholders", email="grace@example.com")).text
        assert "No cardholders match" in page
        page = (await browser.get(path)).text
        assert f"••{card['last4']}" in page
        page = (await browser.follow(await browser.post(f"{path}/status", {"status": "blocked"}))).text
        assert "all cards decline" in page
        spend = await acme.spend(card, "1.00")
        assert spend["decline_reason"] == "cardholder_blocked"
        await browser.post(f"{path}/status", {"status": "active"})
        await browser.post(f"{path}/status", {"status": "nonsense"}, 400)
        assert (await acts(acme, card["cardholder_id"]))[:2] == [("update_cardholder", me.id)] * 2
        await browser.post(f"{path}/status", {"status": "closed"})
        assert ">Unblock<" not in (await browser.get(path)).text
