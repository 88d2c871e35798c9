"""The pages of programmes and money in a real browser, if Chromium is installed."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.support.api.console.pages import check_page, sign_in_as
from tests.support.api.console.people import person
from tests.support.api.delegation import delegated_card, policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)

if chromium():

    @pytest.mark.timeout(300)
    async def test_pages_of_programmes_and_money(running: Installation, acme: Caller, tenant: str) -> None:
        card = await delegated_card(acme, policy())
        await acme.spend(card, "25.00", scenario="delegated_timeout")
        programme = f"/programmes/{card['programme_id']}"
        pages = {
            "programme": programme,
            "programme-form": f"{programme}/edit",
            "stand-in": f"{programme}/stand-in",
            "card-product-form": "/card-products/new",
            "ledger": f"/ledger?account_id={card['funding_account_id']}",
            "exports": "/exports",
        }
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.set_viewport_size({"width": 1280, "height": 900})
            await sign_in_as(page, address, await person(running, tenant))
            await page.goto(f"{address}/console" + programme)
            await expect(page.get_by_text("Standing in since")).to_be_visible()
            for name, path in pages.items():
                await page.goto(f"{address}/console{path}")
                await check_page(page, name)
            await page.get_by_role("button", name="Export").click()
            await expect(page.get_by_role("status")).to_be_visible()
            assert visit.messages == []
