"""A browser of the console for tests over HTTP: a client with its own cookies, which signs in and sends
forms."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode

import httpx2
from fastapi import FastAPI

from tests.support.api.console.people import PASSWORD, PersonOfTest
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

HERE = {"Sec-Fetch-Site": "same-origin"}
HTML = {"Accept": "text/html"}
BASE_URL = "http://console.test"
_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]+)"')


class Visitor:
    """One browser. ``http`` is for requests that a browser would not send."""

    def __init__(self, http: httpx2.AsyncClient) -> None:
        self.http = http
        self.csrf = ""

    async def sign_in(self, who: Caller | PersonOfTest) -> None:
        """Sign in with the credentials of a user, or of an API client in test mode."""
        if isinstance(who, PersonOfTest):
            form = {"email": who.email, "password": PASSWORD}
        else:
            credentials = who.credentials
            form = {"client_id": credentials.client_id, "client_secret": credentials.client_secret}
        answer = await self.http.post("/console/sign-in", data=form, headers=HERE)
        assert answer.status_code == 303, answer.text
        await self.remember_token("/sign-in/code" if "/code" in answer.headers["location"] else "/account")

    async def remember_token(self, path: str = "/account") -> None:
        """Read the token of the session's forms."""
        found = _TOKEN.search((await self.get(path)).text)
        assert found is not None, "a page behind a session has the token"
        self.csrf = found[1]

    async def get(self, path: str = "", status: int = 200, /, **query: Any) -> httpx2.Response:
        """Open a page below ``/console`` and expect ``status``."""
        answer = await self.http.get(f"/console{path}", params=query or None, headers=HTML)
        assert answer.status_code == status, answer.text
        return answer

    async def post(
        self,
        path: str,
        fields: Mapping[str, Any] | None = None,
        status: int = 303,
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send a form as a page of the session does, and expect ``status``. A list gives a field several
        times."""
        form = {"csrf": self.csrf, "key": str(uuid.uuid4())} | dict(fields or {})
        answer = await self.http.post(
            f"/console{path}",
            content=urlencode(form, doseq=True),
            headers={"Content-Type": "application/x-www-form-urlencoded"} | HTML | HERE | dict(headers or {}),
        )
        assert answer.status_code == status, answer.text
        return answer

    async def follow(self, answer: httpx2.Response) -> httpx2.Response:
        """Open the page to which ``answer`` redirects."""
        page = await self.http.get(answer.headers["location"], headers=HTML)
        assert page.status_code == 200, page.text
        return page


@asynccontextmanager
async def visitor(
    running: Installation, who: Caller | PersonOfTest | None = None, app: FastAPI | None = None
) -> AsyncIterator[Visitor]:
    """A browser at the installation, or at another API server ``app``; signed in if there is a user or a
    client."""
    transport = httpx2.ASGITransport(app=app or running.app)
    async with httpx2.AsyncClient(transport=transport, base_url=BASE_URL) as http:
        browser = Visitor(http)
        if who is not None:
            await browser.sign_in(who)
        yield browser
