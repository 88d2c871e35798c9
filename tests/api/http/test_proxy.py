"""The API and its pages behind a proxy that terminates TLS and removes a path prefix."""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urljoin, urlsplit

import httpx2
import pytest
import trustme
from aiohttp import ClientSession, web

from api.app import create_app
from stanchion import AsyncClient, NotFoundError, money
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

PREFIX = "/cards-of-acme"
HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding"}
LINK = re.compile(r'(?:href|src|action|data-url)="([^"]*)"')
PAGES = ("/", "/docs", "/docs/reference", "/problems", "/console/sign-in")
CONSOLE_PAGES = (
    "/console",
    "/console/cards/new",
    "/console/cards/{id}",
    "/console/transactions",
    "/console/account",
)
_TOKEN = re.compile(r'name="csrf" value="([0-9a-f]+)"')


@asynccontextmanager
async def proxied(upstream: str, authority: trustme.CA) -> AsyncIterator[str]:
    """A TLS proxy in front of ``upstream``; yields its address with the prefix."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)

    async def forward(request: web.Request) -> web.Response:
        if not request.path.startswith(f"{PREFIX}/"):
            return web.Response(status=404, text="another application")
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        headers |= {"Host": request.host, "X-Forwarded-Proto": "https", "X-Forwarded-Prefix": PREFIX}
        headers["X-Forwarded-For"] = "203.0.113.9"
        target = upstream + request.raw_path.removeprefix(PREFIX)
        body = await request.read()
        async with session.request(
            request.method, target, data=body, headers=headers, allow_redirects=False
        ) as answer:
            kept = [(name, value) for name, value in answer.headers.items() if name.lower() not in HOP_BY_HOP]
            return web.Response(body=await answer.read(), status=answer.status, headers=kept)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", forward)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    async with ClientSession(auto_decompress=True) as session:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        try:
            yield f"https://127.0.0.1:{runner.addresses[0][1]}{PREFIX}"
        finally:
            await runner.cleanup()


@asynccontextmanager
async def behind_proxy(running: Installation) -> AsyncIterator[tuple[str, httpx2.AsyncClient]]:
    """An API server that trusts the proxy; yields the public address, and a client that trusts its
    certificate."""
    settings = running.services.settings.replace(trusted_proxies="127.0.0.0/8")
    app = create_app(dataclasses.replace(running.services, settings=settings))
    authority = trustme.CA()
    context = ssl.create_default_context()
    authority.configure_trust(context)
    async with served(app) as upstream, proxied(upstream, authority) as address:
        async with httpx2.AsyncClient(base_url=address, verify=context, timeout=30.0) as http:
            yield address, http


async def test_client_works_behind_the_proxy(running: Installation, acme: Caller) -> None:
    async with behind_proxy(running) as (address, http):
        credentials = acme.credentials
        async with AsyncClient(
            address, credentials.client_id, credentials.client_secret, http=http
        ) as client:
            programme = await client.programs.create(name="Behind a proxy", currency="EUR")
            assert (await client.programs.get(programme["id"]))["name"] == "Behind a proxy"
            assert programme["id"] in {each["id"] async for each in client.programs.list(page_size=1)}
            with pytest.raises(NotFoundError) as refused:
                await client.cards.load(programme["id"], money("1.00", "EUR"))
            assert refused.value.slug == "not-found"
            unsigned = await http.get("/v1/programs")
            assert unsigned.status_code == 401
            assert "strict-transport-security" in unsigned.headers


async def links_below_prefix(http: httpx2.AsyncClient, address: str, path: str) -> set[str]:
    """The targets of all links of a page; each is below the prefix or on another host."""
    page = await http.get(path, headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert page.headers["content-type"].startswith("text/html")
    targets: set[str] = set()
    for link in set(LINK.findall(page.text)):
        target = urljoin(str(page.url), link.partition("#")[0].replace("&amp;", "&"))
        if urlsplit(target)[:2] != urlsplit(address)[:2]:
            assert link.startswith(("https://", "mailto:", "data:")), link
        else:
            assert target.startswith(f"{address}/") or target == address, link
            targets.add(target)
    return targets


async def test_every_link_of_the_pages_stays_below_the_prefix(running: Installation) -> None:
    async with behind_proxy(running) as (address, http):
        targets = set.union(*[await links_below_prefix(http, address, path) for path in PAGES])
        assert len(targets) > len(PAGES)
        for target in sorted(targets):
            answer = await http.get(target)
            assert answer.status_code in {200, 401, 303, 405}, target


async def test_console_works_below_the_prefix(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    async with behind_proxy(running) as (address, http):
        form = {
            "client_id": acme.credentials.client_id,
            "client_secret": acme.credentials.client_secret,
        }
        here = {"Origin": address.removesuffix(PREFIX), "Sec-Fetch-Site": "same-origin"}
        signed_in = await http.post("/console/sign-in", data=form, headers=here)
        assert signed_in.status_code == 303
        assert signed_in.headers["location"] == f"{PREFIX}/console"
        cookie = signed_in.headers["set-cookie"].lower()
        assert f"path={PREFIX}/console" in cookie
        assert "secure" in cookie
        targets: set[str] = set()
        for path in CONSOLE_PAGES:
            targets |= await links_below_prefix(http, address, path.format(id=card["id"]))
        static = sorted(each for each in targets if "/static/" in each)
        assert static
        for target in static:
            assert (await http.get(target)).status_code == 200, target
        page = await http.get(f"/console/cards/{card['id']}", headers={"Accept": "text/html"})
        token = _TOKEN.search(page.text)
        assert token is not None
        frozen = await http.post(
            f"/console/cards/{card['id']}/state",
            data={"csrf": token[1], "key": "k-1", "state": "suspended"},
            headers=here,
        )
        assert frozen.status_code == 303
        assert frozen.headers["location"] == f"{PREFIX}/console/cards/{card['id']}"
    assert (await acme.get(f"/v1/cards/{card['id']}"))["state"] == "suspended"
