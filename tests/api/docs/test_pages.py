"""The documentation pages in a real browser, if Chromium is installed (`.ci/run` installs it)."""

from __future__ import annotations

import json
import re

from playwright.async_api import Page, Response, expect

from tests.support.api.console.pages import violations
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)
WIDE = {"width": 1280, "height": 900}


async def check(page: Page) -> None:
    """Check the page on a phone in light colours and on a screen in dark ones. Of the many operations, which
    have the same elements, every twelfth is checked: axe-core takes minutes for all."""
    assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    await page.evaluate(
        "document.querySelectorAll('main section[id], .opblock:not(.is-open)')"
        ".forEach((each, at) => at % 12 && each.remove())"
    )
    for width, scheme in ((390, "light"), (1280, "dark")):
        await page.set_viewport_size({"width": width, "height": 900})
        await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert await violations(page) == [], (width, scheme)
        assert await page.evaluate("document.documentElement.scrollWidth") <= width


def is_creation(answer: Response) -> bool:
    """Whether this answers the creation of a programme."""
    return answer.url.endswith("/v1/programs") and answer.request.method == "POST"


if chromium():

    async def test_reference_is_searched_read_and_copied_by_keyboard(running: Installation) -> None:
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
            await page.set_viewport_size(WIDE)  # type: ignore[arg-type]
            await page.goto(f"{address}/docs/reference")
            await page.keyboard.press("/")
            await expect(page.get_by_label("Search operations")).to_be_focused()
            await page.keyboard.type("card headroom")
            await expect(page.locator("#found")).to_contain_text("match")
            await page.keyboard.press("ArrowDown")
            await page.keyboard.press("Enter")
            assert page.url.endswith("#get_card_headroom")
            section = page.locator("#get_card_headroom")
            await expect(section.locator("pre.curl")).to_be_visible()
            await expect(section.locator("pre.python")).to_be_hidden()
            await section.get_by_role("button", name="Python").focus()
            await page.keyboard.press("Enter")
            await expect(section.locator("pre.python")).to_contain_text("client.cards.headroom(")
            await expect(section.locator("pre.curl")).to_be_hidden()
            await section.get_by_role("button", name=re.compile("^Copy: .*request$")).press("Enter")
            await expect(page.locator("#said")).to_have_text("Copied")
            copied = await page.evaluate("navigator.clipboard.readText()")
            assert copied == await section.locator("pre.python").text_content()
            # The choices last: language and theme are those of the next visit.
            await page.get_by_role("button", name="Dark").press("Enter")
            await page.reload()
            await expect(section.locator("pre.python")).to_be_visible()
            await expect(page.locator("html")).to_have_attribute("data-theme", "dark")
            await page.get_by_label("Search operations").fill("no such words")
            await expect(page.locator("#found")).to_have_text("No match")
            await page.keyboard.press("Escape")
            await expect(page.locator("#contents")).to_be_visible()
            assert {url.startswith(address) for url in visit.addresses} == {True}
            assert visit.messages == []

    async def test_reference_is_accessible_in_every_form(running: Installation) -> None:
        async with served(running.app) as address, browser() as visit:
            await visit.page.goto(f"{address}/docs/reference")
            await check(visit.page)
            assert visit.messages == []

    async def test_requests_are_tried_with_one_sign_in_and_fresh_keys(
        running: Installation, acme: Caller
    ) -> None:
        async with served(running.app) as address, browser() as visit:
            page = visit.page
            await page.goto(f"{address}/docs")
            await page.locator(".opblock").first.wait_for()
            assert await page.get_by_role("button", name="Authorize").count() == 0
            state = page.locator("#state")
            await page.get_by_label("Client id").fill(acme.credentials.client_id)
            await page.get_by_label("Client secret").fill("wrong")
            await page.keyboard.press("Enter")
            await expect(state).to_contain_text("No token")
            await page.get_by_label("Client secret").fill(acme.credentials.client_secret)
            await page.keyboard.press("Enter")
            await expect(state).to_contain_text(f"Authorized as {acme.credentials.client_id}")
            await page.goto(f"{address}/docs#/Programmes/create_program")
            await page.reload()
            await expect(state).to_contain_text("Authorized as")
            operation = page.locator("#operations-Programmes-create_program")
            keys = []
            for _ in range(2):
                async with page.expect_response(is_creation) as answered:
                    await operation.get_by_role("button", name="Execute").click()
                answer = await answered.value
                assert answer.status == 201
                keys.append(answer.request.headers["idempotency-key"])
            await check(page)
            await page.emulate_media(color_scheme="light")
            assert len(set(keys)) == 2
            assert all(re.fullmatch("[0-9a-f]{32}", key) for key in keys)
            assert len((await acme.get("/v1/programs"))["data"]) == 2
            # The secret stays in the form; the storage of the tab has the token.
            stored = json.dumps(await page.evaluate("({...sessionStorage, ...localStorage})"))
            assert acme.credentials.client_secret not in stored
            await page.get_by_role("button", name="Forget the token").click()
            await expect(state).to_contain_text("Not authorized")
            assert await page.evaluate("sessionStorage.length") == 0
            assert {url.startswith(address) for url in visit.addresses} == {True}
            # The browser reports the refused token request, and Swagger UI a form of links of its own.
            expected = ("401 (Unauthorized)", "escaping deep link whitespace")
            assert [each for each in visit.messages if not any(text in each for text in expected)] == []
