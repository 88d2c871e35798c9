"""What takes the short way, and that it ends where the long one does."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.testclient import TestClient
from starlette.types import Receive, Scope, Send

from api.operations.short_way import ShortWay


class Told:
    """An endpoint that answers with its own name."""

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, request: Request) -> Response:
        body = (await request.body()).decode()
        return PlainTextResponse(f"{self._name} {request.method} {request.query_params.get('q')} {body}")


async def long_way(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("long way")(scope, receive, send)


@pytest.fixture
def client() -> TestClient:
    endpoints: dict[tuple[str, str], Any] = {
        ("POST", "/v1/things"): Told("create"),
        ("GET", "/v1/things"): Told("list"),
    }
    return TestClient(ShortWay(long_way, endpoints))


@pytest.mark.parametrize(
    ("method", "path", "answer"),
    [
        ("POST", "/v1/things?q=1", "create POST 1 body"),
        ("GET", "/v1/things", "list GET None body"),
        ("PUT", "/v1/things", "long way"),
        ("GET", "/v1/things/", "long way"),
        ("GET", "/v1/things/7", "long way"),
        ("POST", "/V1/things", "long way"),
    ],
)
def test_only_the_very_method_and_path_take_it(
    client: TestClient, method: str, path: str, answer: str
) -> None:
    assert client.request(method, path, content=b"body").text == answer
