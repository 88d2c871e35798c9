"""Every request is counted once, by operation and status."""

from __future__ import annotations

from typing import cast

import httpx2
from starlette.types import Message

from actors.metrics import METRICS, Distribution, Labels
from api.app import create_app
from api.database.pool import POOL_WAIT
from api.http.counts import RestCounts
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def requests(counts: RestCounts) -> dict[Labels, float]:
    return cast(dict[Labels, float], counts.figures()["stanchion_rest_requests"])


async def test_requests_count_by_operation_and_status(running: Installation, acme: Caller) -> None:
    before = requests(running.services.counts)
    await acme.programme()
    await acme.post("/v1/programs", {"name": ""}, 400)
    await acme.get("/v1/programs/nonsense", 404)
    await acme.get("/nowhere", 404)
    await acme.http.get("/v1/programs")
    after = requests(running.services.counts)
    assert {key: after[key] - before.get(key, 0) for key in after if after[key] != before.get(key)} == {
        ("create_program", "201"): 1,
        ("create_program", "400"): 1,
        ("get_program", "404"): 1,
        ("list_programs", "401"): 1,
        ("other", "404"): 1,
    }


async def test_latencies_are_recorded_for_each_operation(running: Installation, acme: Caller) -> None:
    await acme.programme()
    figures = running.services.counts.figures()
    assert figures.keys() <= METRICS.keys()
    latencies = figures["stanchion_rest_seconds"]
    assert isinstance(latencies, dict)
    created, token = latencies[("create_program",)], latencies[("create_token",)]
    assert isinstance(created, Distribution)
    assert isinstance(token, Distribution)
    assert created.total > 0
    counted = sum(
        count for (name, _), count in requests(running.services.counts).items() if name == "create_program"
    )
    assert sum(created.counts) == counted


async def test_waits_for_pool_connections_are_measured(acme: Caller) -> None:
    before = sum(POOL_WAIT.figure().counts)
    await acme.programme()
    assert sum(POOL_WAIT.figure().counts) > before


async def test_disconnected_client_is_counted_as_client_gone(running: Installation) -> None:
    app = create_app(running.services)

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(_message: Message) -> None:
        raise AssertionError("the client has disconnected")

    url = httpx2.URL("http://api.test/v1/oauth/token")
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": url.path,
        "raw_path": url.raw_path,
        "query_string": b"",
        "headers": [
            (b"host", b"api.test"),
            (b"content-type", b"application/json"),
            (b"content-length", b"10"),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("api.test", 80),
        "scheme": "http",
        "root_path": "",
    }
    before = requests(running.services.counts).get(("create_token", "client_gone"), 0)
    await app(scope, receive, send)
    assert requests(running.services.counts)[("create_token", "client_gone")] == before + 1
