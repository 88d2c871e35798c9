"""The console in a real browser, the size of a phone, where there is a Chromium (`.ci/run` installs it)."""

from __future__ import annotations

from pathlib import Path

from tests.api.driver import Caller
from tests.api.stack import Installation, served
from tests.api.vision.browser import Page, browser, chromium

SIGN_IN = """
    document.getElementById("client_id").value = {client_id!r};
    document.getElementById("client_secret").value = {client_secret!r};
    document.querySelector("main button").click();
"""


async def opened(page: Page, address: str, caller: Caller) -> None:
    """The console, signed in through its form."""
    await page.call("Page.navigate", url=f"{address}/console")
    await page.until("!!document.getElementById('client_id')")
    credentials = caller.credentials
    given = {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
    await page.value(SIGN_IN.format(**given))
    await page.until("!!document.querySelector('#panels h2')")


if chromium():

    async def test_it_lives_and_asks_nobody_else(running: Installation, acme: Caller, tmp_path: Path) -> None:
        card = await acme.funded_card()
        await acme.spend(card, "1.00", merchant_name="First")
        async with served(running.app) as address, browser(tmp_path / "profile") as page:
            await opened(page, address, acme)
            await page.until("document.querySelectorAll('#newest details').length === 1")
            await page.until("!!document.querySelector('#chart canvas')")
            await page.value("document.querySelector('#newest summary').click()")
            assert "card_state" in await page.value(
                "document.querySelector('#newest details[open]').innerText"
            )
            # What happens meanwhile appears by itself, and what was opened stays open.
            await acme.spend(card, "999.00", merchant_name="Second")
            await page.until("document.querySelectorAll('#newest details').length === 2")
            assert "First" in await page.value("document.querySelector('#newest details[open]').innerText")
            assert "insufficient_funds" in await page.value("document.getElementById('reasons').innerText")
            for scheme in ("light", "dark"):
                features = [{"name": "prefers-color-scheme", "value": scheme}]
                await page.call("Emulation.setEmulatedMedia", features=features)
                background = await page.value("getComputedStyle(document.body).backgroundColor")
                assert background == {"light": "rgb(246, 247, 249)", "dark": "rgb(17, 21, 28)"}[scheme]
            assert await page.value("document.documentElement.scrollWidth <= window.innerWidth")
            await page.value("document.querySelector('#newest details[open] a').click()")
            await page.until(
                "document.querySelector('h1') && document.querySelector('h1').innerText.includes('…')"
            )
            await page.value("document.querySelector('button.plain').click()")
            await page.until("!!document.getElementById('client_id')")
            fetched = [each["url"] for each in page.requests if not each["url"].startswith("data:")]
            assert {url.startswith(f"{address}/console") for url in fetched} == {True}
            assert await page.value("document.cookie") == ""
            assert page.messages == []

    async def test_a_session_that_has_ended_leads_to_the_form(
        running: Installation, acme: Caller, tmp_path: Path
    ) -> None:
        async with served(running.app) as address, browser(tmp_path / "profile") as page:
            await opened(page, address, acme)
            await page.call("Network.clearBrowserCookies")
            await page.until("!!document.getElementById('client_id')")
