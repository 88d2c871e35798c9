"""Home, transactions, cards, accounts and cardholders in a real browser: by keyboard, on a phone and a desk,
in light and dark."""

from __future__ import annotations

import pytest
from playwright.async_api import ViewportSize, expect

from tests.support.api.console.pages import check_page, sign_in_as
from tests.support.api.console.people import person
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)

DESK: ViewportSize = {"width": 1280, "height": 900}
"""On a phone, the button that ends the session is in the closed menu."""

if chromium():

    @pytest.mark.timeout(300)
    async def test_people_follow_decisions_by_keyboard(
        running: Installation, acme: Caller, tenant: str
    ) -> None:
        me = await person(running, tenant, role="admin")
        card = await acme.funded_card()
        await acme.spend(card, "12.00", merchant_name="First")
        await acme.spend(card, "450.00")
        async with served(running.app) as address, browser() as visit:
            page, console = visit.page, f"{address}/console"
            await page.set_viewport_size(DESK)
            await sign_in_as(page, address, me)

            # The charts, drawn from the figures of each range.
            await expect(page.locator("#approved")).to_have_text("1")
            await page.locator("#chart-decisions canvas").wait_for()
            await expect(page.locator("#reasons")).to_contain_text("insufficient funds")
            await expect(page.locator("#chart-decisions")).to_have_attribute(
                "aria-label", "Decisions: 1 approved, 1 declined"
            )
            await check_page(page, "home")
            range_ = page.get_by_role("link", name="90d", exact=True)
            await range_.focus()
            await page.keyboard.press("Enter")
            await expect(range_).to_have_attribute("aria-current", "true")
            await page.locator("#chart-latency canvas").wait_for()
            await expect(page.locator("#counting")).to_have_count(0)
            await expect(page.locator("#approved")).to_have_text("1")

            # The live tail shows new transactions, and keeps the focus.
            await page.goto(f"{console}/transactions")
            rows = page.locator("#rows tr")
            await expect(rows).to_have_count(2)
            await rows.last.locator("a").first.focus()
            await acme.spend(card, "1.00", merchant_name="Third")
            await expect(rows).to_have_count(3)
            await expect(page.locator(":focus")).to_have_text("First")
            await check_page(page, "transactions")
            await page.get_by_role("button", name="Pause").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#tail-state")).to_contain_text("Paused")
            await page.keyboard.press("Enter")
            await expect(page.locator("#tail-state")).to_contain_text("Live")
            assert visit.messages == []
            assert {url.startswith(console) for url in visit.addresses} == {True}

    @pytest.mark.timeout(300)
    async def test_people_understand_a_transaction_by_keyboard(
        running: Installation, acme: Caller, tenant: str
    ) -> None:
        me = await person(running, tenant, role="admin")
        await acme.endpoint()
        await acme.spend(await acme.funded_card(), "12.00", merchant_name="First")
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.set_viewport_size(DESK)
            await sign_in_as(page, address, me)
            await page.goto(f"{address}/console/transactions")
            await page.get_by_role("link", name="First").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("h1")).to_have_text("First")
            await expect(page.locator("#main")).to_contain_text("No endpoint subscribes")
            await page.get_by_role("button", name="Replay").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#replay")).to_contain_text("byte for byte")
            await check_page(page, "transaction")
            await page.get_by_role("link", name="How would it be decided now?").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#outcome")).to_contain_text("approved")
            await check_page(page, "evaluate")
            assert visit.messages == []

    @pytest.mark.timeout(300)
    async def test_people_act_on_a_card_by_keyboard(running: Installation, acme: Caller, tenant: str) -> None:
        me = await person(running, tenant, role="admin", reveal=True)
        card = await acme.funded_card(controls=[{"kind": "per_day_amount_cap", "amount": "500.00"}])
        async with served(running.app) as address, browser() as visit:
            page, of_card = visit.page, f"{address}/console/cards/{card['id']}"
            await page.set_viewport_size(DESK)
            await sign_in_as(page, address, me)
            await page.goto(f"{of_card}/spend")
            await check_page(page, "spend")
            await page.get_by_label("Amount in EUR").fill("3.00")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("status").first).to_have_text("Approved: 3.00 EUR.")
            await page.goto(of_card)
            await page.get_by_role("button", name="Freeze").focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("#freeze")).to_be_visible()
            await page.locator("#freeze-reason").fill("asked by phone")
            await check_page(page, "freeze")
            await page.keyboard.press("Enter")
            await expect(page.get_by_role("button", name="Unfreeze")).to_be_visible()
            await expect(page.locator("#main")).to_contain_text("asked by phone")
            await check_page(page, "card-frozen")
            for name in ("controls", "replace"):
                await page.goto(f"{of_card}/{name}")
                await check_page(page, name)
            assert visit.messages == []

    @pytest.mark.timeout(300)
    async def test_lists_and_pages_of_accounts_and_cardholders_are_accessible(
        running: Installation, acme: Caller, tenant: str
    ) -> None:
        me, card = await person(running, tenant, role="admin"), await acme.funded_card()
        async with served(running.app) as address, browser() as visit:
            await visit.page.set_viewport_size(DESK)
            await sign_in_as(visit.page, address, me)
            for name, path in (
                ("cards", "/cards?state=active"),
                ("accounts", "/accounts"),
                ("account", f"/accounts/{card['funding_account_id']}"),
                ("cardholders", "/cardholders"),
                ("cardholder", f"/cardholders/{card['cardholder_id']}"),
            ):
                await visit.page.goto(f"{address}/console{path}")
                await check_page(visit.page, name)
            assert visit.messages == []
