"""Pages of the console on a phone and on a desk, in light and in dark.

With the environment variable ``STANCHION_SHOTS`` a picture of each is kept in that folder.
"""

from __future__ import annotations

import os
from itertools import product
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlencode

from playwright.async_api import Page
from tests.support.api.console.axe import check_page

from tests.support.api.driver import Caller
from tests.support.api.vision.browser import Visit

WIDTHS: Final = (390, 1280)
SCHEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")
HEIGHT: Final = 844


async def opened(page: Page, address: str, caller: Caller, path: str) -> None:
    """Sign in as an API client through the form, and open ``path`` below the console."""
    await page.goto(f"{address}/console/sign-in?{urlencode({'next': f'/console{path}'})}")
    await page.get_by_label("Client id").fill(caller.credentials.client_id)
    await page.get_by_label("Client secret").fill(caller.credentials.client_secret)
    await page.get_by_role("button", name="Sign in").click()
    await page.locator("main h1").wait_for()


async def check_screens(visit: Visit, name: str) -> None:
    """Check that the page fits its width and has no violation of accessibility, on both widths and in both
    colour schemes."""
    page, folder = visit.page, os.environ.get("STANCHION_SHOTS")
    for width, scheme in product(WIDTHS, SCHEMES):
        await page.set_viewport_size({"width": width, "height": HEIGHT})
        await page.emulate_media(color_scheme=scheme)
        assert await visit.value("document.documentElement.scrollWidth <= window.innerWidth"), (name, width)
        await check_page(page)
        if folder:
            await page.screenshot(path=Path(folder) / f"{name}-{width}-{scheme}.png", full_page=True)
