"""One declaration of an operation gives a method of both clients, blocking and asynchronous."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, assert_type

import httpx2
import pytest

from stanchion import AsyncClient, Client, NotDecidedError, records
from stanchion.protocol import TOKEN_PATH
from stanchion.resources import transactions
from stanchion.resources.cards import Cards

PAGES = {
    None: {"data": [{"id": "c"}, {"id": "b"}], "has_more": True, "next_cursor": "b"},
    "b": {"data": [{"id": "a"}], "has_more": False, "next_cursor": None},
}


class FakeApi:
    """A fake API: answers with ``answer`` and records the requests."""

    def __init__(self, answer: Callable[[httpx2.Request], Any]) -> None:
        self._answer = answer
        self.requests: list[str] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == TOKEN_PATH:
            return httpx2.Response(200, json={"access_token": "t", "expires_in": 3600})
        self.requests.append(f"{request.method} {request.url.raw_path.decode()}")
        return httpx2.Response(200, json=self._answer(request))

    @property
    def http(self) -> dict[str, Any]:
        return {"base_url": "http://api.test", "transport": httpx2.MockTransport(self)}

    def blocking(self) -> Client:
        return Client("", "id", "secret", http=httpx2.Client(**self.http))

    def awaiting(self) -> AsyncClient:
        return AsyncClient("", "id", "secret", http=httpx2.AsyncClient(**self.http))


def page(request: httpx2.Request) -> Any:
    return PAGES[request.url.params.get("starting_after")]


def test_list_fetches_one_page_at_a_time() -> None:
    api = FakeApi(page)
    with api.blocking() as client:
        rows = client.cards.list(cardholder_id="h", page_size=2)
        assert isinstance(rows, Iterator)
        assert api.requests == []
        assert [next(rows)["id"], next(rows)["id"]] == ["c", "b"]
        assert api.requests == ["GET /v1/cards?cardholder_id=h&limit=2"]
        assert [row["id"] for row in rows] == ["a"]
    assert api.requests[1:] == ["GET /v1/cards?cardholder_id=h&limit=2&starting_after=b"]


async def test_async_list_fetches_one_page_at_a_time() -> None:
    api = FakeApi(page)
    async with api.awaiting() as client:
        rows = client.cards.list(cardholder_id="h", page_size=2)
        assert isinstance(rows, AsyncIterator)
        assert api.requests == []
        assert [row["id"] async for row in rows] == ["c", "b", "a"]
    assert api.requests == [
        "GET /v1/cards?cardholder_id=h&limit=2",
        "GET /v1/cards?cardholder_id=h&limit=2&starting_after=b",
    ]


async def test_id_is_quoted_in_the_path() -> None:
    api = FakeApi(lambda _request: {"data": [], "cvv2": "123", "has_more": False})
    with api.blocking() as client:
        client.cards.get("../programs?x=1#y")
        assert list(client.webhook_endpoints.deliveries("a/b")) == []
        assert client.cards.cvv2("c") == "123"
    async with api.awaiting() as client:
        await client.cards.get("../programs?x=1#y")
    assert api.requests == [
        "GET /v1/cards/..%2Fprograms%3Fx%3D1%23y",
        "GET /v1/webhook-endpoints/a%2Fb/deliveries?limit=100",
        "POST /v1/cards/c/cvv2",
        "GET /v1/cards/..%2Fprograms%3Fx%3D1%23y",
    ]


def _decided_after(decided_after: int) -> FakeApi:
    states = iter(["accepted", *["sent"] * (decided_after - 1), "decided"])
    return FakeApi(lambda _request: {"state": next(states)})


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll without pauses."""
    monkeypatch.setattr(transactions, "POLL_SECONDS", 0.0)


@pytest.mark.usefixtures("no_pauses")
async def test_wait_returns_the_decided_simulation() -> None:
    with _decided_after(5).blocking() as client:
        assert client.simulations.wait("s")["state"] == "decided"
    async with _decided_after(5).awaiting() as client:
        assert (await client.simulations.wait("s"))["state"] == "decided"


@pytest.mark.usefixtures("no_pauses")
async def test_wait_raises_not_decided_after_the_timeout() -> None:
    sent = FakeApi(lambda _request: {"state": "sent"})
    with sent.blocking() as client, pytest.raises(NotDecidedError, match="s is sent after 0 s"):
        client.simulations.wait("s", seconds=0)
    async with sent.awaiting() as client:
        with pytest.raises(NotDecidedError, match="s is sent after 0 s"):
            await client.simulations.wait("s", seconds=0)


def test_method_keeps_docstring_and_signature() -> None:
    with FakeApi(page).blocking() as client:
        balance = client.cards.balance
        assert inspect.getdoc(balance) == inspect.getdoc(Cards.balance.prepare)
        assert list(inspect.signature(balance).parameters) == ["id_"]
        assert not inspect.iscoroutinefunction(balance)


async def test_async_request_is_sent_only_when_awaited() -> None:
    api = FakeApi(lambda _request: {})
    async with api.awaiting() as client:
        balance = client.cards.balance("c")
        await asyncio.sleep(0)
        assert api.requests == []
        await balance
    assert api.requests == ["GET /v1/cards/c/balance"]


async def test_both_clients_are_typed() -> None:
    """mypy checks the assertions."""
    api = FakeApi(lambda _request: {"data": [], "has_more": False, "state": "decided"})
    with api.blocking() as client:
        assert_type(client.cards.get("c"), records.Card)
        assert_type(client.cards.list(), Iterator[records.Card])
        assert_type(client.simulations.wait("s"), records.Simulation)
    async with api.awaiting() as awaiting:
        assert_type(await awaiting.cards.get("c"), records.Card)
        assert_type(awaiting.cards.list(), AsyncIterator[records.Card])
        assert_type(await awaiting.simulations.wait("s"), records.Simulation)
    assert len(api.requests) == 4
