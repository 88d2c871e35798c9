"""The API and its pages behind a proxy that terminates TLS and removes a path prefix."""

from __future__ import annotations

import dataclasses
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

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
PAGES = ("/", "/docs", "/docs/reference", "/problems")


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
