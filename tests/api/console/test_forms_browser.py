"""The forms of cards and cardholders, and the acts on a transaction, in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.async_api import Page, expect

from tests.support.api.console.pages import check_page, sign_in_as
from tests.support.api.console.people import person
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)


async def issue_by_keyboard(page: Page, address: str, product: str) -> None:
    """Issue a card to a new cardholder, with keys alone once the page is open."""
    await page.goto(f"{address}/console/cards/new")
    await page.locator("#programme_id").focus()
    await page.keyboard.press("ArrowDown")
    # The choice makes the form anew, and the focus stays.
    await expect(page.locator("#card_product_id")).to_have_value(product)
    await expect(page.locator("#programme_id")).to_be_focused()
    await page.locator("#holder_choice-existing").focus()
    await page.keyboard.press("ArrowDown")
    for text in ("Grace", "Hopper", "grace@example.com"):
        await page.keyboard.press("Tab")
        await page.keyboard.type(text)
    await check_page(page, "issue-new-holder")
    await page.locator("#own_controls").focus()
    await page.keyboard.press("Space")
    await page.locator('[id="controls.0.kind"]').focus()
    await page.keyboard.type("largest amount")
    await page.keyboard.press("Tab")
    await page.keyboard.type("much")
    await page.keyboard.press("Enter")
    await expect(page.locator('[id="controls.0-error"], [id="controls.0.value-error"]').first).to_be_visible()
    await check_page(page, "issue-refused")
    await page.locator('[id="controls.0.value"]').fill("20.00")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("The card is issued.")).to_be_visible()


if chromium():

    @pytest.mark.timeout(300)
    async def test_forms_and_acts_work_by_keyboard_in_every_form(
        running: Installation, acme: Caller, tenant: str, tmp_path: Path
    ) -> None:
        caps = [
            {"kind": "per_txn_cap", "amount": "90.00"},
            {"kind": "per_day_cap", "count": 5},
            {"kind": "per_day_amount_cap", "amount": "400.00"},
        ]
        programme = await acme.programme()
        product = await acme.product(programme, control_defaults=caps)
        holder = await acme.cardholder(programme, metadata={"tier": "gold"})
        card = await acme.card(product, holder, external_ref="card-7", metadata={"team": "red"})
        await acme.load(card, "500.00")
        spend = await acme.spend(card, "40.00", merchant_name="Grand Hotel", mcc="7011")
        sale = f"/transactions/{spend['transaction_id']}"
        pages = {
            "card": f"/cards/{card['id']}",
            "card-controls": f"/cards/{card['id']}/controls",
            "card-records": f"/cards/{card['id']}/records",
            "cardholder": f"/cardholders/{holder['id']}",
            "cardholder-form": f"/cardholders/{holder['id']}/edit",
            "cardholder-new": "/cardholders/new",
            "transaction": sale,
            "card-product": f"/card-products/{product['id']}",
        }
        async with served(running.app) as address, browser(tmp_path / "profile") as visit:
            page = visit.page
            await page.set_viewport_size({"width": 1280, "height": 900})
            await sign_in_as(page, address, await person(running, tenant))
            await issue_by_keyboard(page, address, product["id"])
            for name, path in pages.items():
                await page.goto(f"{address}/console{path}")
                await check_page(page, name)
            await page.goto(f"{address}/console{sale}")
            await page.get_by_role("button", name="Clear", exact=True).focus()
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("heading", name="Clear this purchase?")).to_be_visible()
            await check_page(page, "transaction-clear")
            await page.locator("#clear-amount").fill("15.00")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("Presented: 15.00 EUR")).to_be_visible()
            # The browser reports the refused form.
            assert [each for each in visit.messages if "400 (Bad Request)" not in each] == []
