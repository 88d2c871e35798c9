"""The demo's commentary is correct: every answer is checked, and an unexpected one ends it.

`make demo` runs all of it with its processes; here every part but Ray is real.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from rich.console import Console

from actors.settings import Settings
from actors.vault import Vault
from api.vision.app import create_app as create_vision_app
from ops.demo.checks import DemoError
from ops.demo.fault import kill_the_owner
from ops.demo.outage import Outage
from ops.demo.story import Story
from ops.demo.webhook import Webhook
from ops.embedded.local_https import with_local_egress
from stanchion import Client
from tests.support.api.stack import installation, served


@pytest.fixture
async def api(settings: Settings, vault: Vault) -> AsyncIterator[Client]:
    local = with_local_egress(settings)
    async with installation(local, vault, webhooks=True) as running, served(running.app) as address:
        owner = (await running.caller()).credentials
        async with served(create_vision_app(running.services), settings.vision_port):
            with Client(address, owner.client_id, owner.client_secret) as client:
                yield client


async def test_every_answer_of_the_story_is_as_expected(api: Client) -> None:
    output = io.StringIO()
    story = Story(Console(file=output, width=200))
    for chapter in (story.first_day, story.after_the_kill, story.second_day):
        await asyncio.to_thread(chapter, api)
    for sentence in (
        "available 57.50",
        "declined, mcc_not_allowed",
        "raises the hold by 10.00",
        "response 85",
        "the check has passed and is valid until",
    ):
        assert sentence in output.getvalue()


async def test_one_unexpected_answer_ends_the_demo(api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    truth = api.cards.balance
    monkeypatch.setattr(api.cards, "balance", lambda id_: truth(id_) | {"held": "42.51"})
    story = Story(Console(file=io.StringIO()))
    with pytest.raises(DemoError, match=r"^balance: .*'42\.51'.* instead of .*$"):
        await asyncio.to_thread(story.first_day, api)


async def test_the_outage_is_as_expected_and_one_unexpected_answer_ends_it(
    api: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.StringIO()
    await asyncio.to_thread(Outage(Console(file=output, width=200), settings.var_dir).run, api)
    for sentence in (
        "25.00 on the first card: approved, by programme",
        "declined, declared_balance_exceeded (response 51), by stand_in",
        "authorization.stip_outage.finished: ended at",
        "100.00 of 100.00",
    ):
        assert sentence in output.getvalue()
    truth = api.transactions.get
    monkeypatch.setattr(api.transactions, "get", lambda id_: truth(id_) | {"decided_by": "platform"})
    with pytest.raises(DemoError, match=r"^who decided: 'platform' instead of 'programme'$"):
        await asyncio.to_thread(Outage(Console(file=io.StringIO()), settings.var_dir).run, api)


async def test_the_webhook_arrives(settings: Settings, api: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.StringIO()
    await asyncio.to_thread(Webhook(Console(file=output, width=200), settings.var_dir).run, api)
    for sentence in (
        "signature verified",
        "with decision approved over 12.00 EUR",
        "the receiver answers 500",
        "it has the same bytes",
    ):
        assert sentence in output.getvalue()
    truth = api.events.get
    monkeypatch.setattr(api.events, "get", lambda id_: truth(id_) | {"id": "another"})
    with pytest.raises(DemoError, match=r"^the event in the log: "):
        await asyncio.to_thread(Webhook(Console(file=io.StringIO()), settings.var_dir).run, api)


async def test_no_host_to_kill_is_an_error(settings: Settings) -> None:
    async def handler(_request: web.Request) -> web.Response:
        return web.Response(text="nothing\n")

    app = web.Application()
    app.router.add_get("/metrics", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", settings.metrics_port)
    await site.start()
    try:
        with pytest.raises(DemoError, match="no shard host is listed"):
            await asyncio.to_thread(kill_the_owner, f"http://127.0.0.1:{settings.metrics_port}/metrics")
    finally:
        await runner.cleanup()
