"""A capture session from start to end, once with plain HTTP requests and once in a real browser.

Without an installed Chromium, the cases with a browser are not collected (`.ci/run` installs it).
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import httpx2
import pytest
from playwright.async_api import expect

from api.vision.app import create_app
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, DOCUMENT, applicant, begin, submit
from tests.support.api.stack import Installation, served
from tests.support.api.vision.applicant import SESSION, bind, open_session, png, send_picture
from tests.support.api.vision.browser import MILLISECONDS_MAX, Visit, browser, chromium

expect.set_options(timeout=MILLISECONDS_MAX)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize ``way`` with ``requests``, and with ``chromium`` where it is installed."""
    if "way" in metafunc.fixturenames:
        metafunc.parametrize("way", ["requests", *(["chromium"] if chromium() else [])])


class Applicant(Protocol):
    """An applicant who has opened the URL of a capture page."""

    async def choices(self) -> list[str]: ...

    async def choose(self, document_type: str) -> None: ...

    async def take(self, name: str, picture: Path) -> None: ...

    async def awaited(self) -> list[str]: ...

    async def told(self) -> str: ...


class ByHand:
    """Sends the requests of the capture page without a browser."""

    def __init__(self, http: httpx2.AsyncClient, url: str) -> None:
        self._http = http
        self._session = {"capture_session_token": url.partition("#")[2]}

    async def _described(self) -> Any:
        return (await self._http.post(SESSION, json=self._session)).json()

    async def choices(self) -> list[str]:
        described = await self._described()
        return [] if described["locked"] else list(described["document_types"])

    async def choose(self, document_type: str) -> None:
        assert (await bind(self._http, self._session, document_type)).status_code == 200
        assert (await self._described())["document_type"] == document_type

    async def take(self, name: str, picture: Path) -> None:
        assert (await send_picture(self._http, self._session, name, picture.read_bytes())).status_code == 200

    async def awaited(self) -> list[str]:
        return list((await self._described())["awaiting"])

    async def told(self) -> str:
        described = await self._described()
        if "awaiting" not in described:
            return "This link has expired"
        return "Take the pictures" if described["awaiting"] else "Thank you"


class InBrowser:
    """Uses the capture page in a browser."""

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self._page = visit.page

    async def open(self, url: str) -> None:
        await self._page.goto(url)
        await expect(self._page.locator("#status")).not_to_have_text(re.compile("^Loading"))

    async def choices(self) -> list[str]:
        buttons = self._page.locator("#choose:not([hidden]) #types button")
        found = await buttons.evaluate_all("buttons => buttons.map(button => button.dataset.type)")
        return list(found)

    async def choose(self, document_type: str) -> None:
        button = self._page.locator(f'#types button[data-type="{document_type}"]')
        await button.click()
        await expect(button).to_have_attribute("aria-pressed", "true")

    async def take(self, name: str, picture: Path) -> None:
        await self._page.locator(f"#{name} input").set_input_files(picture)
        await expect(self._page.locator(f"#{name} .done")).not_to_have_attribute("hidden", "")

    async def awaited(self) -> list[str]:
        return str(await self._visit.value("document.body.dataset.awaiting")).split()

    async def told(self) -> str:
        return str(await self._visit.value("document.getElementById('status').textContent"))

    async def kept_to_itself(self, base_url: str, token: str) -> None:
        """Assert that the page sent requests to its own host only, without violations of its content security
        policy, and that the token appeared in no requested URL, referrer or cookie, nor in the tab's
        location."""
        visit = self._visit
        assert visit.addresses
        assert {url.startswith(f"{base_url}/") for url in visit.addresses} == {True}
        # Playwright includes the fragment of the first URL, which browsers do not send.
        assert not [url for url in visit.addresses if token in url.partition("#")[0]]
        referrers = {(await request.all_headers()).get("referer", "") for request in visit.requests}
        assert referrers == {""}
        assert token not in await visit.value("location.href + document.referrer + document.cookie")
        assert not [message for message in visit.messages if "404 (Not Found)" not in message]
        assert await visit.value("document.documentElement.scrollWidth <= window.innerWidth")


@asynccontextmanager
async def on_the_way(way: str, url: str, base_url: str) -> AsyncIterator[Applicant]:
    """Open ``url`` in one of the two ways."""
    if way == "requests":
        async with httpx2.AsyncClient(base_url=base_url) as http:
            yield ByHand(http, url)
        return
    async with browser() as visit:
        applicant = InBrowser(visit)
        await applicant.open(url)
        yield applicant
        await applicant.kept_to_itself(base_url, url.partition("#")[2])


async def test_applicant_chooses_a_document_type_and_sends_two_pictures(
    running: Installation, acme: Caller, tmp_path: Path, way: str
) -> None:
    programme = await acme.programme(kyc_document_types=["passport", "national_id"])
    check = await begin(acme, "full", await applicant(acme, programme))
    data = {name: value for name, value in DOCUMENT.items() if name != "document_type"}
    check = await submit(acme, check, BASIC | data)
    session = await open_session(acme, check)
    picture = tmp_path / "picture.png"
    picture.write_bytes(png(2400, 1200))
    async with served(create_app(running.services)) as base_url:
        url = session["url"].replace(running.services.settings.vision_address, base_url)
        async with on_the_way(way, url, base_url) as person:
            assert await person.choices() == ["passport", "national_id"]
            await person.choose("passport")
            await person.choose("national_id")
            await person.take("document_evidence", picture)
            assert await person.choices() == []
            assert await person.awaited() == ["selfie"]
            assert (await person.told()).startswith("Take the pictures")
            await person.take("selfie", picture)
            assert await person.awaited() == []
            assert (await person.told()).startswith("Thank you")
    check = await acme.get(f"/v1/kyc/checks/{check['id']}")
    assert (check["state"], check["document_type"]) == ("passed", "national_id")
    kept = await running.services.pool.fetch(
        "SELECT field, octet_length(sealed) AS bytes FROM kyc_values"
        " WHERE check_id = $1 AND purpose = 'evidence_review'",
        check["id"],
    )
    assert {row["field"] for row in kept} == {"document_evidence", "selfie"}
    assert all(500 < row["bytes"] < 200_000 for row in kept)


async def test_expired_link_shows_a_message(running: Installation, acme: Caller, way: str) -> None:
    session = await open_session(acme)
    age = "UPDATE kyc_capture_sessions SET expires_at = now() WHERE id = $1"
    await running.services.pool.execute(age, session["id"])
    async with served(create_app(running.services)) as base_url:
        url = session["url"].replace(running.services.settings.vision_address, base_url)
        async with on_the_way(way, url, base_url) as person:
            assert (await person.told()).startswith("This link has expired")
