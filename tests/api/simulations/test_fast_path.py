"""The middleware for ``POST /v1/simulated-spends`` gives the same answers as the FastAPI route."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2
import pytest

from actors.ids import new_id
from api.app import create_app
from api.simulations import fast_path
from api.simulations.fast_path import SpendFastPath
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

SPEND = {
    "amount": {"amount": "1.00", "currency": "EUR"},
    "mcc": "5411",
    "merchant_name": "Corner Shop",
    "channel": "pos",
}


@contextmanager
def without_fast_path() -> Iterator[None]:
    """Disable the middleware's route, so that FastAPI answers."""
    patch = pytest.MonkeyPatch()
    patch.setattr(fast_path, "PATH", "/nowhere")
    yield
    patch.undo()


def shown(response: httpx2.Response) -> tuple[int, Any, dict[str, str]]:
    """Status, body and headers, without the values that differ for each request."""
    body = response.json()
    for name in ("instance", "simulation_id", "accepted_at", "stan", "rrn", "network_txn_id"):
        body[name] = name in body
    headers = dict(response.headers)
    del headers["x-request-id"]
    headers.pop("content-length", None)
    return response.status_code, body, headers


def requests(card: Any) -> list[tuple[str, dict[str, str], bytes]]:
    """Query, headers and body of each request; each one is refused by a different check or is accepted."""
    valid = {"card_id": card["id"], **SPEND}
    return [
        ("", {}, json.dumps(valid).encode()),
        ("?q=1", {"Content-Type": "text/foo+json"}, json.dumps(valid).encode()),
        ("", {"Authorization": "Bearer unknown"}, b"{}"),
        ("", {"Content-Type": "text/plain"}, b"{}"),
        ("", {}, b""),
        ("", {}, b"null"),
        ("", {}, b'{"a": 1, "a": 2}'),
        ("", {}, b"{" + b" " * 70_000 + b"}"),
        ("", {}, b"[]"),
        ("", {}, json.dumps(valid | {"bogus": 1, "mcc": "54", "amount": {"amount": 1}}).encode()),
        ("", {}, json.dumps(valid | {"card_id": new_id()}).encode()),
    ]


async def test_middleware_and_fastapi_give_equal_answers(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    app = create_app(running.services)
    client = httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api.test")
    statuses = []
    async with client:
        for query, headers, body in requests(card):
            sent = {"Authorization": f"Bearer {acme.token}", "Content-Type": "application/json"} | headers
            short = await client.post(f"/v1/simulated-spends{query}", content=body, headers=sent)
            with without_fast_path():
                long = await client.post(f"/v1/simulated-spends{query}", content=body, headers=sent)
            assert shown(short) == shown(long), body
            statuses.append(short.status_code)
    assert statuses == [202, 202, 401, 415, 400, 400, 400, 413, 400, 400, 404]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/simulated-spends"),
        ("POST", "/v1/simulated-spends/"),
        ("POST", "/V1/simulated-spends"),
        ("POST", "/v1/simulated-spends/7"),
    ],
)
async def test_other_methods_and_paths_reach_the_application(
    running: Installation, method: str, path: str
) -> None:
    reached = []

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        reached.append((scope["method"], scope["path"]))

    state = running.app.state
    middleware = SpendFastPath(application, state.services, state.quotas, state.admission, state.card_states)
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}
    await middleware(scope, None, None)  # type: ignore[arg-type]
    assert reached == [(method, path)]
