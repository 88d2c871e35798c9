"""One follow-up for each idempotency key: concurrent requests, lost answers, servers that die or stall."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest

from api.app import create_app
from api.http.faults import NetworkUnavailableError
from engine.simulation import Acceptance, SimulationRequest, SpendOutcome, SpendRequest
from tests.api.simulations.test_follow_ups import body_of, change, money
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.mark.parametrize("operation", ["increment", "reverse", "clear"])
async def test_concurrent_repetitions_start_one_follow_up(acme: Caller, operation: str) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "10.00")
    path = f"/v1/simulated-spends/{spend['simulation_id']}/{operation}"
    body = body_of(operation)
    answers = await asyncio.gather(*(acme.send("POST", path, body, key="one") for _ in range(8)))
    accepted = {answer.content for answer in answers if answer.status_code == 202}
    assert len(accepted) == 1
    assert {answer.status_code for answer in answers} <= {202, 409}
    again = await acme.send("POST", path, body, key="one")
    assert {again.content} == accepted
    assert again.headers["Idempotent-Replayed"] == "true"
    altered = await acme.send("POST", path, body | {"final": False} if body else {"x": 1}, key="one")
    assert (altered.status_code, altered.json()["type"]) == (409, "/problems/idempotency-key-reused")
    assert (await acme.send("POST", path, body, key=None)).status_code == 400
    await acme.simulation(again.json()["simulation_id"])
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    assert len(transaction["events"]) == 2


class LosesAnswers:
    """A network whose answer is lost: the follow-up is started, but the API gets an error."""

    def __init__(self, network: Any) -> None:
        self._network = network

    async def accept(self, request: SimulationRequest) -> Acceptance:
        await self._network.accept(request)
        raise NetworkUnavailableError

    async def spend(self, request: SpendRequest) -> SpendOutcome | None:
        outcome: SpendOutcome | None = await self._network.spend(request)
        return outcome


@pytest.mark.parametrize("path", ["/v1/simulated-spends/{id}/increment", "/v1/simulated-clearings"])
async def test_retry_after_a_lost_answer_starts_no_second_follow_up(
    running: Installation, acme: Caller, path: str
) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "10.00")
    path = path.replace("{id}", spend["simulation_id"])
    body: dict[str, Any] = {"raise_by_amount": money("5.00")}
    other: dict[str, Any] = {"raise_by_amount": money("6.00")}
    if path.endswith("clearings"):
        body = {"card_id": card["id"], "amount": money("5.00"), "mcc": "5812", "merchant_name": "Bistro"}
        other = body | {"amount": money("6.00")}
    services = dataclasses.replace(running.services, network=LosesAnswers(running.services.network))
    transport = httpx2.ASGITransport(app=create_app(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.test") as http:
        broken = Caller(http, acme.credentials)
        broken.token = acme.token
        assert (await broken.send("POST", path, body, key="lost")).status_code == 500
    altered = await acme.send("POST", path, other, key="lost")
    assert (altered.status_code, altered.json()["type"]) == (409, "/problems/idempotency-key-reused")
    found = await acme.post(path, body, 202, key="lost")
    child = await acme.simulation(found["simulation_id"])
    assert child["amount"] == money("5.00")
    transactions = (await acme.get("/v1/transactions"))["data"]
    posted = sum(len(transaction["events"]) for transaction in transactions)
    assert posted == 2


class StalledNetwork:
    """A network that delays each call until ``goes_on`` is set, before or after it starts the follow-up."""

    def __init__(self, network: Any, *, acts_first: bool) -> None:
        self._network = network
        self._acts_first = acts_first
        self.called = asyncio.Event()
        self.goes_on = asyncio.Event()

    async def accept(self, request: SimulationRequest) -> Acceptance:
        if self._acts_first:
            await self._network.accept(request)
        self.called.set()
        await self.goes_on.wait()
        acceptance: Acceptance = await self._network.accept(request)
        return acceptance


@asynccontextmanager
async def another_server(running: Installation, acme: Caller, network: Any) -> AsyncIterator[Caller]:
    """A second API server, with ``network`` as its simulated network."""
    services = dataclasses.replace(running.services, network=network)
    transport = httpx2.ASGITransport(app=create_app(services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://api.test") as http:
        caller = Caller(http, acme.credentials)
        caller.token = acme.token
        yield caller


BEGAN = [datetime.now(UTC)]
"""When the present test began: the tests of a worker share a database."""


@pytest.fixture(autouse=True)
def begin() -> None:
    BEGAN[0] = datetime.now(UTC)


async def claims(running: Installation) -> int:
    """Claims of the present test."""
    counted = "SELECT count(*) FROM idempotency_claims WHERE claimed_at >= $1"
    return int(await running.services.pool.fetchval(counted, BEGAN[0]))


BODIES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "/v1/simulated-spends/{id}/increment": (
        {"raise_by_amount": money("5.00")},
        {"raise_by_amount": money("6.00")},
    ),
    "/v1/simulated-spends/{id}/reverse": ({}, {"lower_by_amount": money("1.00")}),
    "/v1/simulated-spends/{id}/clear": ({}, {"final": False}),
    "/v1/simulated-clearings": (
        {"amount": money("5.00"), "mcc": "5812", "merchant_name": "Bistro"},
        {"amount": money("6.00"), "mcc": "5812", "merchant_name": "Bistro"},
    ),
}


async def keyed(acme: Caller, path: str) -> tuple[str, Any, Any]:
    """The path of a follow-up, its body and another valid body."""
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "10.00")
    body, other = BODIES[path]
    if path.endswith("clearings"):
        body, other = ({**each, "card_id": card["id"]} for each in (body, other))
    return path.replace("{id}", spend["simulation_id"]), body, other


@pytest.mark.parametrize("path", BODIES)
async def test_request_holds_no_connection_while_it_waits_for_the_network(
    running: Installation, acme: Caller, path: str
) -> None:
    path, body, other = await keyed(acme, path)
    network = StalledNetwork(running.services.network, acts_first=False)
    async with another_server(running, acme, network) as slow:
        asking = asyncio.create_task(slow.send("POST", path, body, key="held"))
        await network.called.wait()
        pool = running.services.pool
        assert pool.get_idle_size() == pool.get_size()
        copy = await acme.send("POST", path, body, key="held")
        assert (copy.status_code, copy.json()["type"]) == (409, "/problems/idempotency-in-progress")
        assert copy.headers["Retry-After"] == "1"
        for altered in (other, {"amount": "invalid"}):
            answer = await acme.send("POST", path, altered, key="held")
            assert (answer.status_code, answer.json()["type"]) == (409, "/problems/idempotency-key-reused")
        network.goes_on.set()
        first = await asking
    assert first.status_code == 202
    again = await acme.send("POST", path, body, key="held")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    assert await claims(running) == 0


@pytest.mark.parametrize("acts_first", [False, True])
@pytest.mark.parametrize("path", BODIES)
async def test_repetition_takes_over_the_request_of_a_dead_server(
    running: Installation, acme: Caller, path: str, acts_first: bool
) -> None:
    path, body, other = await keyed(acme, path)
    network = StalledNetwork(running.services.network, acts_first=acts_first)
    async with another_server(running, acme, network) as dying:
        asking = asyncio.create_task(dying.send("POST", path, body, key="taken"))
        await network.called.wait()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    copy = await acme.send("POST", path, body, key="taken")
    assert (copy.status_code, copy.json()["type"]) == (409, "/problems/idempotency-in-progress")
    await change(running, "UPDATE idempotency_claims SET lease_until = now()")
    altered = await acme.send("POST", path, other, key="taken")
    assert (altered.status_code, altered.json()["type"]) == (409, "/problems/idempotency-key-reused")
    found = await acme.post(path, body, 202, key="taken")
    await acme.simulation(found["simulation_id"])
    assert await acme.post(path, body, 202, key="taken") == found
    card_id = (await acme.simulation(found["simulation_id"]))["card_id"]
    count = "SELECT count(*) FROM simulations WHERE operation <> 'spend' AND card_id = $1::uuid"
    assert await running.services.pool.fetchval(count, card_id) == 1
    assert await claims(running) == 0


async def test_slow_server_returns_the_answer_of_its_successor(running: Installation, acme: Caller) -> None:
    path, body, _ = await keyed(acme, "/v1/simulated-spends/{id}/increment")
    network = StalledNetwork(running.services.network, acts_first=False)
    async with another_server(running, acme, network) as slow:
        asking = asyncio.create_task(slow.send("POST", path, body, key="slow"))
        await network.called.wait()
        await change(running, "UPDATE idempotency_claims SET lease_until = now()")
        taken_over = await acme.send("POST", path, body, key="slow")
        network.goes_on.set()
        late = await asking
    assert (late.status_code, late.content) == (202, taken_over.content)
    assert await claims(running) == 0


async def test_refused_follow_up_leaves_no_claim(running: Installation, acme: Caller) -> None:
    path, _, other = await keyed(acme, "/v1/simulated-spends/{id}/reverse")
    await acme.post(path, None, 202, key="all")
    refused = await acme.send("POST", path, other, key="more")
    assert refused.json()["type"] == "/problems/nothing-held"
    assert await claims(running) == 0
