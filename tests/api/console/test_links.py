"""The console's page of links."""

from __future__ import annotations

from tests.support.actors.outbox.waiting import eventually
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def test_links_of_the_mode_are_shown(running: Installation, acme: Caller) -> None:
    await eventually(lambda: _reported(acme))
    async with visitor(running, acme) as browser:
        page = (await browser.get("/links")).text
        assert "stanchion links sign-off default" in page
        assert ">up</span>" in page
        assert "127.0.0.1" not in page


async def _reported(caller: Caller) -> object:
    return (await caller.get("/v1/links"))["data"]


async def test_links_are_for_admins(running: Installation, acme: Caller) -> None:
    user = await running.caller(acme.credentials.name, role="user")
    async with visitor(running, user) as browser:
        await browser.get("/links", 403)
