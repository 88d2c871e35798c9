"""The console over HTTP: the audit log and the content policy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2

from tests.support.api.console.people import PersonOfTest
from tests.support.api.console.visitor import Visitor
from tests.support.api.console.visitor import visitor as browser_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

HERE = {"Sec-Fetch-Site": "same-origin"}
PAGES = ("/console", "/console/panels", "/console/summary", "/console/cards/x", "/console/audit-log")


@asynccontextmanager
async def visitor(running: Installation) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: an HTTP client with its own cookie jar."""
    async with browser_of(running) as browser:
        yield browser.http


async def sign_in(http: httpx2.AsyncClient, who: Caller | PersonOfTest) -> None:
    await Visitor(http).sign_in(who)


async def test_audit_log_shows_acts_with_the_names_of_clients(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    made = await owner.post("/v1/clients", {"role": "admin", "name": "Back <office>"})
    card = await owner.funded_card()
    await owner.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    async with visitor(running) as http:
        secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
        answer = await http.post("/console/sign-in", data=secret, headers=HERE)
        assert answer.status_code == 303
        page = (await http.get("/console/audit-log")).text
        assert "<strong>sign in</strong>" in page
        assert 'client <span class="faint">Back &lt;office&gt;</span>' in page
        assert f'href="/console/cards/{card["id"]}"' in page
        assert "<td>state</td><td>active</td><td>suspended</td>" in page
        assert made["client_secret"] not in page
    acts = (await owner.get(f"/v1/audit-log?object_id={made['id']}"))["data"]
    assert [each["act"] for each in acts] == ["sign_in", "create_client"]
    assert {each["actor"]["id"] for each in acts[:1]} == {made["id"]}
    user = await running.caller(tenant, role="user")
    async with visitor(running) as http:
        await sign_in(http, user)
        answer = await http.get("/console/audit-log")
        assert answer.status_code == 403
        assert card["id"] not in answer.text


async def test_pages_load_resources_from_their_own_origin_only(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http:
        pages = [await http.get("/console/sign-in")]
        await sign_in(http, acme)
        pages += [await http.get(page) for page in PAGES]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert not re.search(r"(src|href)=\"(https?:)?//|<script>|style=\"| on\w+=", page.text)
        for asset in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', pages[0].text):
            answer = await http.get(asset)
            assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
        assert (await http.get("/console/static/VENDORED.md")).status_code == 404
