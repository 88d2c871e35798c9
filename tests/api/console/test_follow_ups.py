"""What the simulated network does to a transaction, from the transaction's page."""

from __future__ import annotations

import re
import uuid
from typing import Any

from tests.support.api.console.visitor import Visitor, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def offered(page: str) -> set[str]:
    """The acts whose dialogs the page has."""
    return set(re.findall(r'action="[^"]*/transactions/[0-9a-f-]+/([a-z]+)"', page)) - {"replay"}


async def done(browser: Visitor, path: str, fields: dict[str, Any] | None = None) -> str:
    """Carry out an act; the page with its outcome."""
    return (await browser.follow(await browser.post(path, fields))).text


async def test_sale_is_raised_reversed_in_part_cleared_and_refunded(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "20.00", merchant_name="Grand Hotel", mcc="7011")
    id_ = spend["transaction_id"]
    path = f"/transactions/{id_}"
    async with visitor(running, acme) as browser:
        page = (await browser.get(path)).text
        assert offered(page) == {"clear", "increment", "reverse", "expire"}
        assert "Raised: 10.00 EUR" in await done(browser, f"{path}/increment", {"amount": "10.00"})
        assert "Declined: insufficient funds" in await done(browser, f"{path}/increment", {"amount": "99.00"})
        assert "Reversed: 5.00 EUR" in await done(browser, f"{path}/reverse", {"amount": "5.00"})
        part = {"amount": "4.00", "more": "true", "key": str(uuid.uuid4())}
        for _ in range(2):
            page = await done(browser, f"{path}/clear", part)
            assert "Presented: 4.00 EUR" in page
        assert "refund" in offered(page)
        assert "Presented: 21.00 EUR" in await done(browser, f"{path}/clear")
        cleared = await acme.get(f"/v1/transactions/{id_}")
        assert (cleared["status"], cleared["cleared_amount"]) == ("cleared", "25.00")
        # A refusal is shown on the transaction's page, and changes nothing.
        page = (await browser.post(f"{path}/reverse", {}, 409)).text
        assert 'role="alert"' in page
        assert offered(page) == {"clear", "refund"}
        assert "Refunded: 6.00 EUR" in await done(browser, f"{path}/refund", {"amount": "6.00"})
        assert (await browser.post(f"{path}/refund", {"amount": "much"}, 400)).text.count('role="alert"') == 1
    newest = (await acme.get(f"/v1/transactions?card_id={card['id']}"))["data"]
    assert [(each["kind"], each["merchant"]["name"]) for each in newest] == [
        ("refund", "Grand Hotel"),
        ("purchase", "Grand Hotel"),
    ]
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["available"] == "81.00"


async def test_hold_lapses_and_can_still_be_cleared(running: Installation, acme: Caller) -> None:
    spend = await acme.spend(await acme.funded_card("100.00"), "20.00")
    path = f"/transactions/{spend['transaction_id']}"
    async with visitor(running, acme) as browser:
        page = await done(browser, f"{path}/expire")
        assert "The hold has lapsed" in page
        assert offered(page) == {"clear"}
        assert "Presented: 20.00 EUR" in await done(browser, f"{path}/clear")


async def test_acts_are_offered_for_sales_of_the_simulated_network_by_permission(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card("10.00")
    declined = await acme.spend(card, "20.00")
    approved = await acme.spend(card, "5.00")
    refund = await acme.spend(card, "1.00", kind="refund")
    body = {
        "card_id": card["id"],
        "amount": {"amount": "2.00", "currency": "EUR"},
        "mcc": "5411",
        "merchant_name": "Ferry",
    }
    forced = await acme.simulation((await acme.post("/v1/simulated-clearings", body, 202))["simulation_id"])
    async with visitor(running, acme) as browser:
        for spend, acts in ((declined, ""), (refund, ""), (forced, "refund")):
            page = (await browser.get(f"/transactions/{spend['transaction_id']}")).text
            assert offered(page) == set(acts.split()), spend["operation"]
    path = f"/transactions/{approved['transaction_id']}"
    reader = await running.caller(tenant, scopes=("transactions:read", "cards:read"))
    async with visitor(running, reader) as browser:
        assert offered((await browser.get(path)).text) == set()
        await browser.post(f"{path}/clear", {}, 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        for act in ("clear", "reverse", "increment", "expire", "refund"):
            await browser.post(f"{path}/{act}", {"amount": "1.00"}, 404)
