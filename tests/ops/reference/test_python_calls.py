"""The Python examples send the recorded requests, and are current."""

from __future__ import annotations

import json
from typing import Any

import httpx2

from api.app import operations
from api.docs.examples import recorded, recorded_python_calls
from ops.reference.python_calls import python_calls
from stanchion import Client


class Recording:
    """A fake API that keeps the requests; every answer is an empty page with every member."""

    def __init__(self) -> None:
        self.requests: list[httpx2.Request] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/v1/oauth/token":
            return httpx2.Response(200, json={"access_token": "t", "expires_in": 3600})
        self.requests.append(request)
        return httpx2.Response(200, json={"data": [], "has_more": False, "cvv2": "123"})


def sent(code: str) -> list[httpx2.Request]:
    """The requests that ``code`` sends."""
    recording = Recording()
    http = httpx2.Client(base_url="http://api.test", transport=httpx2.MockTransport(recording))
    with Client("", "id", "secret", http=http) as client:
        exec(compile(code, "example", "exec"), {"client": client})
    return recording.requests


def test_python_calls_send_the_recorded_requests() -> None:
    calls, examples = python_calls(recorded()), recorded()
    for route in operations():
        example: Any = examples.get(route.name)
        if example is None:
            continue  # operations that the description leaves out
        (request,) = sent(calls[route.name])
        assert (request.method, request.url.path) == (
            route.method,
            route.path.replace("{id}", str(example["id"])),
        ), route.name
        # Iterators ask for the largest pages unless the example has another size.
        pages = {"limit": "100"} if calls[route.name].startswith("for ") else {}
        assert dict(request.url.params) == {**pages, **example["query"]}, route.name
        body = json.loads(request.content) if request.content else None
        assert body == example["request"], route.name
        assert all(len(line) <= 100 for line in calls[route.name].splitlines())


def test_client_has_methods_for_almost_all_operations() -> None:
    without = [name for name, code in python_calls(recorded()).items() if "client.request(" in code]
    assert len(without) <= 2, without


def test_stored_calls_are_current() -> None:
    assert recorded_python_calls() == python_calls(recorded()), "python -m ops.reference --python"


def test_operation_without_a_method_is_called_by_its_path() -> None:
    example: Any = {
        "id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a03",
        "query": {},
        "request": {"balance": {"amount": "200.00", "currency": "EUR"}},
        "status": 200,
        "response": {},
    }
    code = python_calls({"declare_balance": example})["declare_balance"]
    (request,) = sent(code)
    assert code.startswith("answer = client.request(")
    assert (request.method, request.url.path) == ("PUT", f"/v1/cards/{example['id']}/declared-balance")
    assert json.loads(request.content) == example["request"]
