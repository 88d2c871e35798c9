"""The demo tells the truth: the story is true of the real parts, and ends when one answer is not as told.

The whole of it, with its processes, is run by `make demo`; here everything but Ray is real.
"""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import asdict

import aiohttp
import pytest
from aiohttp import web
from rich.console import Console

from actors.settings import Settings
from actors.vault import Vault
from ops.demo.client import Api, DemoError, Json
from ops.demo.fault import kill_the_owner
from ops.demo.story import Story
from tests.api.stack import installation, served


@pytest.fixture
async def api(settings: Settings, vault: Vault) -> AsyncIterator[Api]:
    async with installation(settings, vault) as running, served(running.app) as address:
        client = asdict((await running.caller()).credentials)
        async with aiohttp.ClientSession(address) as session:
            yield await Api.sign_in(session, client)


async def test_the_story_is_true(api: Api) -> None:
    told = io.StringIO()
    story = Story(Console(file=told, width=200))
    await story.first_day(api)
    await story.after_the_kill(api)
    await story.second_day(api)
    for sentence in (
        "available 57.50",
        "declined, mcc_not_allowed",
        "raises the hold by 10.00",
        "response 85",
    ):
        assert sentence in told.getvalue()


class Liar(Api):
    """Reports one balance wrongly."""

    async def call(self, method: str, path: str, body: Json | None = None, *, status: int = 200) -> Json:
        content = await super().call(method, path, body, status=status)
        return content | {"held": "42.51"} if path.endswith("/balance") else content


async def test_one_wrong_answer_ends_it(api: Api) -> None:
    story = Story(Console(file=io.StringIO()))
    with pytest.raises(DemoError, match=r"^balance: .*'held': '42\.51'.* was promised$"):
        await story.first_day(Liar(api.session, api.token))


async def test_a_refusal_ends_it_in_one_line(api: Api) -> None:
    with pytest.raises(DemoError, match=r"^GET /v1/nowhere: 404 \(.+\) where 200 was promised$"):
        await api.call("GET", "/v1/nowhere")


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
        with pytest.raises(DemoError, match="no shard host is to be seen"):
            await kill_the_owner(f"http://127.0.0.1:{settings.metrics_port}/metrics")
    finally:
        await runner.cleanup()
