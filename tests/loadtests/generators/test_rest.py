"""The REST load generator against a small fake of the API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web

from loadtests.generators.http import Api, HttpError
from loadtests.generators.rest import SpendLoad, held_minor, issue_cards
from loadtests.generators.workload import AMOUNT, FUNDS
from tests.support.ops.waiting import wait_until

Json = dict[str, Any]
CREDENTIALS = {"client_id": "cl", "client_secret": "s&=+ecret"}


class FakeApi:
    """Issues cards and accepts spends; each is pending on the first query and decided afterwards."""

    def __init__(self) -> None:
        self.bodies: dict[str, list[Json]] = {}
        self.keys: list[str] = []
        self.spends = 0
        self.undecided = False
        self._asked: set[str] = set()

    def app(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/oauth/token", self._token)
        app.router.add_post("/v1/simulated-spends", self._spend)
        app.router.add_get("/v1/simulated-spends/{id}", self._record)
        app.router.add_get("/v1/cards/{id}/balance", self._balance)
        app.router.add_post("/v1/{family}", self._create)
        return app

    async def _token(self, request: web.Request) -> web.Response:
        assert dict(await request.post()) == {"grant_type": "client_credentials", **CREDENTIALS}
        return web.json_response({"access_token": "token"})

    async def _create(self, request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer token"
        self.keys.append(request.headers["Idempotency-Key"])
        bodies = self.bodies.setdefault(request.match_info["family"], [])
        bodies.append(await request.json())
        return web.json_response({"id": f"{request.match_info['family']}-{len(bodies)}"}, status=201)

    async def _spend(self, request: web.Request) -> web.Response:
        assert "Idempotency-Key" not in request.headers
        self.bodies.setdefault("spends", []).append(await request.json())
        self.spends += 1
        return web.json_response({"simulation_id": f"sim-{self.spends}"}, status=202)

    async def _record(self, request: web.Request) -> web.Response:
        id_ = request.match_info["id"]
        if self.undecided:
            return web.json_response({"state": "failed"})
        if id_ not in self._asked:
            self._asked.add(id_)
            return web.json_response({"state": "sent"})
        at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat().replace("+00:00", "Z")
        return web.json_response({"state": "decided", "decision": "approved", "decided_at": at})

    async def _balance(self, request: web.Request) -> web.Response:
        return web.json_response({"held": f"{request.match_info['id']}.50"})


@pytest.fixture
def fake() -> FakeApi:
    return FakeApi()


@pytest.fixture
async def api(fake: FakeApi) -> AsyncIterator[Api]:
    """An authenticated client."""
    runner = web.AppRunner(fake.app(), access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    client = Api(f"http://{host}:{port}", 3)
    await client.open(CREDENTIALS)
    yield client
    await client.close()
    await runner.cleanup()


async def test_cards_are_issued_and_loaded_through_the_api(api: Api, fake: FakeApi) -> None:
    cards = await issue_cards(api, 7)
    assert len(set(cards)) == 7
    loads = fake.bodies["simulated-loads"]
    assert {load["card_id"] for load in loads} == set(cards)
    assert {load["amount"]["amount"] for load in loads} == {FUNDS}
    assert len(set(fake.keys)) == len(fake.keys) == 3 + 2 * 7


async def test_every_accepted_spend_counts_and_a_sample_is_timed(api: Api, fake: FakeApi) -> None:
    load = SpendLoad(api, ["card-1", "card-2"], 4)
    await load.start()
    await wait_until(lambda: fake.spends >= 40)
    samples = await load.stop()
    assert samples.approved == fake.spends
    assert (samples.refused, samples.lost, samples.partial) == (0, 0, True)
    assert len(samples.done) == len(samples.started) <= fake.spends
    assert all(done > started for started, done in zip(samples.started, samples.done, strict=True))
    assert {spend["card_id"] for spend in fake.bodies["spends"]} == {"card-1", "card-2"}
    assert {spend["amount"]["amount"] for spend in fake.bodies["spends"]} == {AMOUNT}


async def test_an_open_loop_sends_at_its_own_pace(api: Api, fake: FakeApi) -> None:
    load = SpendLoad(api, ["card-1"], 4, per_second=500.0)
    await load.start()
    await wait_until(lambda: fake.spends >= 20)
    samples = await load.stop()
    assert len(samples.lateness) == fake.spends
    due = sorted(samples.started)
    steps = [later - earlier for earlier, later in pairwise(due)]
    assert steps == pytest.approx([1 / 500.0] * len(steps), abs=1e-6)


async def test_failed_spends_count_as_lost(api: Api, fake: FakeApi) -> None:
    fake.undecided = True
    load = SpendLoad(api, ["card-1"], 1)
    await load.start()
    await wait_until(lambda: fake.spends >= 3)
    samples = await load.stop()
    assert samples.lost == samples.approved == fake.spends
    assert samples.done == []


async def test_holds_are_summed_in_minor_units(api: Api) -> None:
    assert await held_minor(api, ["1", "20"]) == 150 + 2050


async def test_another_status_is_an_error_of_one_line(api: Api) -> None:
    with pytest.raises(HttpError, match=r"^POST /v1/programs: 201 \(None\)$"):
        await api.call("POST", "/v1/programs", {"name": "x"})
