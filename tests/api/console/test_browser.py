"""The console and the documentation in a real browser, if Chromium is installed (`.ci/run` installs it)."""

from __future__ import annotations

from playwright.async_api import Page, expect

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

    async def test_ended_session_leads_to_the_sign_in_form(running: Installation, acme: Caller) -> None:
        async with served(running.app) as address, browser() as visit:
            await opened(visit.page, address, acme)
            await visit.page.context.clear_cookies()
            await visit.page.get_by_label("E-mail address").wait_for()

    async def test_documentation_works_under_its_content_policy(running: Installation) -> None:
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.goto(f"{address}/docs")
            await page.goto(f"{address}/docs/reference")
            await page.goto(f"{address}/problems")
            # The pages have no favicon: its request returns 404.
            assert [each for each in visit.messages if "404 (Not Found)" not in each] == []
