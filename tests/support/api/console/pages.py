"""Checks of the console's pages in a real browser: accessibility, width, colour schemes, pictures."""

from __future__ import annotations

import itertools
import os
from functools import cache
from pathlib import Path
from typing import Any, Final

from playwright.async_api import Page

from tests.support.api.console.people import PASSWORD, PersonOfTest

AXE: Final = Path(__file__).with_name("axe.min.js")
LOOKS: Final = ((390, "light"), (1280, "dark"))
SHOTS: Final = "STANCHION_TEST_SHOTS"
"""Environment variable: folder for a picture of each checked page; unset = none."""


@cache
def _axe() -> str:
    return AXE.read_text("utf-8")


async def sign_in_as(page: Page, address: str, who: PersonOfTest) -> None:
    """Sign in through the form."""
    await page.goto(f"{address}/console/sign-in")
    await page.get_by_label("E-mail address").fill(who.email)
    await page.get_by_label("Password", exact=True).fill(PASSWORD)
    await page.get_by_role("button", name="Sign in", exact=True).click()
    await page.locator("#main").wait_for()


async def check_page(page: Page, name: str = "page") -> None:
    """Check the open page on a phone in light and on a desk in dark colours: axe-core finds no violation, and
    the page is not wider than the window. Pictures are taken of both widths in both schemes."""
    for width, scheme in LOOKS:
        await _look(page, width, scheme)
        where = f"{name}, {width} px, {scheme}"
        found = await violations(page)
        assert not found, f"{where}: {found}"
        widest = await page.evaluate("document.documentElement.scrollWidth")
        assert widest <= width, f"{where}: {widest} px wide"
    folder = os.environ.get(SHOTS)
    for width, scheme in itertools.product((390, 1280), ("light", "dark")) if folder else ():
        await _look(page, width, scheme)
        await page.screenshot(path=Path(folder or "") / f"{name}-{width}-{scheme}.png", full_page=True)


async def _look(page: Page, width: int, scheme: Any) -> None:
    await page.set_viewport_size({"width": width, "height": 900})
    await page.emulate_media(color_scheme=scheme, reduced_motion="reduce")


async def violations(page: Page) -> list[str]:
    """What axe-core finds on the open page: its rules with the elements."""
    # Evaluated by the browser's debugger, because the pages' content policy admits no script of a test.
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_axe())
    found: dict[str, Any] = await page.evaluate("axe.run({resultTypes: ['violations']})")
    return [
        f"{each['id']}: {node['html'][:160]} ({node['failureSummary']})"
        for each in found["violations"]
        for node in each["nodes"]
    ]
