"""The page that shows a card, in a real browser: alone and in frames, and the places where the card number
must not be left.

Without an installed Chromium, this module is not collected (``conftest.py``; `.ci/run` installs it).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import FrameLocator, Page, Route, expect

from actors.exposition import exposition
from api.vision.app import create_app
from tests.api.kyc.test_canaries import dump, found_in
from tests.api.vision.test_reveal import open_session, secrets_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.browser import MILLISECONDS_MAX, Visit, browser

expect.set_options(timeout=MILLISECONDS_MAX)

APP, STRANGER = "https://app.example.com", "https://stranger.example.org"


@pytest_asyncio.fixture(loop_scope="session")
async def revealing(running: Installation, tenant: str) -> Caller:
    return await running.caller(tenant, scopes=("cards:reveal",))


@asynccontextmanager
async def opened_page(
    running: Installation, revealing: Caller, card: Any, *, profile: Path | None = None, **fields: Any
) -> AsyncIterator[tuple[Visit, str]]:
    """A browser whose pages' timers stand still, and the address of a session of ``card`` on a served vision
    host."""
    async with served(create_app(running.services)) as base_url, browser(profile) as visit:
        await visit.page.clock.install(time=0)
        await visit.page.clock.pause_at(1_000)
        session = await open_session(revealing, card, **fields)
        yield visit, session["url"].replace(running.services.settings.vision_address, base_url)


def values(place: Page | FrameLocator) -> Any:
    return place.locator("#card dd")


async def framed(visit: Visit, origin: str, url: str) -> FrameLocator:
    """Frame ``url`` on a page of ``origin``; the page itself is not on the network."""

    async def parent(route: Route) -> None:
        body = f'<!doctype html><title>App</title><iframe src="{url}" width="380" height="420"></iframe>'
        await route.fulfill(body=body, content_type="text/html")

    await visit.page.route(f"{origin}/**", parent)
    await visit.page.goto(f"{origin}/card")
    return visit.page.frame_locator("iframe")


async def test_page_shows_copies_and_hides_the_card(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card("1.00")
    pan, code = await secrets_of(running, card)
    async with opened_page(running, revealing, card) as (visit, url):
        page = visit.page
        await page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        await page.goto(url)
        grouped = " ".join(pan[start : start + 4] for start in range(0, 16, 4))
        expiry = f"{card['exp_month']:02d}/{card['exp_year'] % 100:02d}"
        await expect(values(page)).to_have_text([grouped, expiry, code])
        assert page.url == url.partition("#")[0]
        for name, copied in (("card number", pan), ("expires", expiry), ("security code", code)):
            await page.get_by_role("button", name=f"Copy {name}").click()
            await expect(page.locator("#status")).to_have_text("Copied.")
            assert await page.evaluate("navigator.clipboard.readText()") == copied
        # A click that arrives before the focus copies when the focus does.
        await page.evaluate("navigator.clipboard.writeText('')")
        await page.evaluate("document.hasFocus = () => false")
        await page.get_by_role("button", name="Copy card number").click()
        assert await page.evaluate("navigator.clipboard.readText()") == ""
        await page.evaluate("window.dispatchEvent(new Event('focus'))")
        assert await page.evaluate("navigator.clipboard.readText()") == pan
        await page.clock.run_for(29_000)
        await expect(values(page).first).to_have_text(grouped)
        await page.clock.run_for(1_000)
        await expect(values(page)).to_have_text(
            [re.sub(r"\d", "•", text) for text in (grouped, expiry, code)]
        )
        await expect(page.get_by_role("button")).to_have_count(0)
        assert pan not in await page.content()
        assert await visit.value("document.documentElement.scrollWidth <= window.innerWidth")
        referrers = {(await request.all_headers()).get("referer", "") for request in visit.requests}
        assert referrers == {""}
        assert not visit.messages
        await page.reload()
        await expect(page.locator("#status")).to_contain_text("already used")


async def test_link_works_once(running: Installation, acme: Caller, revealing: Caller) -> None:
    async with opened_page(running, revealing, await acme.funded_card("1.00")) as (visit, url):
        await visit.page.goto(url)
        await expect(values(visit.page)).to_have_count(3)
        again = await visit.page.context.new_page()
        await again.goto(url)
        await expect(again.locator("#status")).to_have_text("This link was already used. Ask for a new one.")
        await expect(values(again)).to_have_count(0)


async def test_expired_link_shows_a_message(running: Installation, acme: Caller, revealing: Caller) -> None:
    async with opened_page(running, revealing, await acme.funded_card("1.00")) as (visit, url):
        age = "UPDATE reveal_sessions SET expires_at = now() WHERE id = $1"
        await running.services.pool.execute(age, url.partition("#")[0].rpartition("/")[2])
        await visit.page.goto(url)
        await expect(visit.page.locator("#status")).to_have_text("This link has expired. Ask for a new one.")


async def test_frame_of_an_allowed_origin_shows_the_card(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card("1.00")
    parents = [APP, "https://other.example.net"]
    async with opened_page(running, revealing, card, parent_origins=parents) as (visit, url):
        frame = await framed(visit, APP, url)
        await expect(values(frame)).to_have_count(3)
        await frame.get_by_role("button", name="Copy card number").click()
        await expect(frame.locator("#status")).to_have_text("Copied.")


@pytest.mark.parametrize("parents", [[], [APP]])
async def test_frame_of_a_foreign_origin_shows_nothing(
    running: Installation, acme: Caller, revealing: Caller, parents: list[str]
) -> None:
    card = await acme.funded_card("1.00")
    async with opened_page(running, revealing, card, parent_origins=parents) as (visit, url):
        async with visit.page.expect_event(
            "console", lambda message: "frame-ancestors" in message.text.lower()
        ):
            frame = await framed(visit, STRANGER, url)
        await expect(frame.locator("#card")).to_have_count(0)
        # The session is unused: the browser refused the page before its script ran.
        await visit.page.goto(url)
        await expect(values(visit.page)).to_have_count(3)


async def test_card_number_stays_in_the_page(
    running: Installation,
    acme: Caller,
    revealing: Caller,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Not in logs, metrics, any table, answers of the API, nor in the browser's profile with its history and
    caches."""
    card = await acme.funded_card("1.00")
    pan, _ = await secrets_of(running, card)
    grouped = " ".join(pan[start : start + 4] for start in range(0, 16, 4))
    profile = tmp_path / "profile"
    async with opened_page(running, revealing, card, profile=profile, parent_origins=[APP]) as (visit, url):
        frame = await framed(visit, APP, url)
        await expect(values(frame).first).to_have_text(grouped)
        token = url.partition("#")[2]
        another = await open_session(revealing, card)
        host = url.partition("/reveal/")[0]
        await visit.page.goto(another["url"].replace(running.services.settings.vision_address, host))
        await expect(values(visit.page).first).to_have_text(grouped)
        await visit.page.goto("about:blank")
    looked_for = {"number": pan.encode(), "groups": grouped.encode(), "token": token.encode()}
    kept = {path: path.read_bytes() for path in profile.rglob("*") if path.is_file()}
    assert any(path.name == "History" for path in kept)
    assert {str(path): found_in(content, looked_for) for path, content in kept.items()} == {
        str(path): set() for path in kept
    }
    logs = "".join(capfd.readouterr()).encode()
    assert found_in(logs, looked_for) == set()
    assert found_in(exposition({"api": running.services.counts.figures()}), looked_for) == set()
    tables = await dump(running)
    assert {"custody_log", "reveal_sessions", "pans", "idempotency", "journal_rows"} <= tables.keys()
    assert {name: found_in(content, looked_for) for name, content in tables.items()} == {
        name: set() for name in tables
    }
    answer = await acme.send("GET", f"/v1/cards/{card['id']}")
    assert found_in(answer.content, looked_for) == set()
