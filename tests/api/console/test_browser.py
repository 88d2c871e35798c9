"""The console and the documentation in a real browser, if Chromium is installed (`.ci/run` installs it)."""

from __future__ import annotations

from pathlib import Path

from playwright.async_api import Page, expect

from engine.limits import CONSOLE_TRANSACTIONS_MAX
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)


async def opened(page: Page, address: str, caller: Caller) -> None:
    """Open the console and sign in through its form."""
    await page.goto(f"{address}/console")
    await page.get_by_text("Use an API client").click()
    await page.get_by_label("Client id").fill(caller.credentials.client_id)
    await page.get_by_label("Client secret").fill(caller.credentials.client_secret)
    await page.get_by_role("button", name="Sign in as the client").click()
    await page.locator("#panels h2").first.wait_for()


if chromium():

    async def test_console_refreshes_itself_from_its_own_origin(
        running: Installation, acme: Caller, tmp_path: Path
    ) -> None:
        card = await acme.funded_card()
        await acme.spend(card, "1.00", merchant_name="First")
        async with served(running.app) as address, browser(tmp_path / "profile") as visit:
            page = visit.page
            await opened(page, address, acme)
            rows = page.locator("#newest details")
            await expect(rows).to_have_count(1)
            await page.locator("#chart canvas").wait_for()
            await rows.locator("summary").click()
            await expect(page.locator("#newest details[open]")).to_contain_text("card_state")
            # Later transactions appear, and the opened one stays open.
            await acme.spend(card, "999.00", merchant_name="Second")
            await expect(rows).to_have_count(2)
            await expect(page.locator("#newest details[open]")).to_contain_text("First")
            await expect(page.locator("#reasons")).to_contain_text("insufficient_funds")
            for scheme, background in (("light", "rgb(246, 247, 249)"), ("dark", "rgb(17, 21, 28)")):
                await page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
                await expect(page.locator("body")).to_have_css("background-color", background)
            assert await visit.value("document.documentElement.scrollWidth <= window.innerWidth")
            await page.locator("#newest details[open] a").click()
            await expect(page.locator("h1")).to_contain_text("…")
            await page.get_by_role("button", name="Sign out").click()
            await page.get_by_label("E-mail address").wait_for()
            assert {url.startswith(f"{address}/console") for url in visit.addresses} == {True}
            assert await visit.value("document.cookie") == ""
            assert visit.messages == []

    async def test_opened_transaction_stays_when_newer_ones_push_it_out(
        running: Installation, acme: Caller, tmp_path: Path
    ) -> None:
        card = await acme.funded_card("1000.00")
        await acme.spend(card, "1.00", merchant_name="First")
        async with served(running.app) as address, browser(tmp_path / "profile") as visit:
            page = visit.page
            await opened(page, address, acme)
            await page.locator("#newest summary").click()
            for number in range(CONSOLE_TRANSACTIONS_MAX + 1):
                await acme.spend(card, "1.00", merchant_name=f"Later {number}")
            last = page.locator("#newest details", has_text=f"Later {CONSOLE_TRANSACTIONS_MAX}")
            await expect(last).to_have_count(1)
            await expect(page.locator("#newest details")).to_have_count(CONSOLE_TRANSACTIONS_MAX + 1)
            await expect(page.locator("#newest details[open]")).to_contain_text("First")

    async def test_ended_session_leads_to_the_sign_in_form(
        running: Installation, acme: Caller, tmp_path: Path
    ) -> None:
        async with served(running.app) as address, browser(tmp_path / "profile") as visit:
            await opened(visit.page, address, acme)
            await visit.page.context.clear_cookies()
            await visit.page.get_by_label("E-mail address").wait_for()

    async def test_documentation_works_under_its_content_policy(
        running: Installation, tmp_path: Path
    ) -> None:
        async with served(running.app) as address, browser(tmp_path / "profile") as visit:
            page = visit.page
            await page.goto(f"{address}/docs")
            await page.get_by_role("button", name="Authorize").first.click()
            await expect(page.locator(".auth-container input").first).to_be_focused()
            await page.goto(f"{address}/docs/reference")
            await page.goto(f"{address}/problems")
            # The pages have no favicon: its request returns 404.
            assert [each for each in visit.messages if "404 (Not Found)" not in each] == []
