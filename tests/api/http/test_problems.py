"""Every refusal by a handler or the framework, and every fault, returns a problem body with a page."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from structlog.testing import capture_logs

from api.app import create_app
from api.http.faults import NetworkUnavailableError
from api.http.problems import PROBLEMS
from api.vision.app import create_app as create_vision_app
from engine.acts import Act
from engine.commands import Command
from engine.replies import IdempotencyClaim, NotExecuted, Reply
from engine.simulation import Acceptance, SimulationRequest, SpendOutcome, SpendRequest
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.api.vision.applicant import vision_host

ROOT = Path(__file__).parents[3]


def is_problem(response: httpx2.Response, status: int, slug: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert (body["type"], body["status"]) == (f"/problems/{slug}", status)
    assert body["instance"] == response.headers["x-request-id"]
    assert body["title"]
    assert body["detail"]


@pytest.mark.parametrize(
    "path", ["/v1", "/v1/nothing", "/v1/cards/", "/docs/assets/none.js", "/problems/none", "//"]
)
async def test_unknown_path_returns_404(acme: Caller, path: str) -> None:
    is_problem(await acme.http.get(f"http://api.test{path}"), 404, "not-found")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("DELETE", "/v1/cards", "GET, HEAD, POST"),
        ("PUT", "/v1/cards/019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e", "GET, HEAD, PATCH"),
        ("GET", "/v1/oauth/token", "POST"),
        ("GET", "/v1/simulated-loads", "POST"),
        ("OPTIONS", "/v1/cards", "GET, HEAD, POST"),
        ("BREW", "/v1/cards", "GET, HEAD, POST"),
    ],
)
async def test_unsupported_method_returns_405_with_allow(
    acme: Caller, method: str, path: str, allowed: str
) -> None:
    response = await acme.http.request(method, path)
    is_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == allowed


async def test_vision_host_returns_problem_bodies(running: Installation) -> None:
    transport = httpx2.ASGITransport(app=create_vision_app(running.services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        is_problem(await http.post("/v1/vision/nothing"), 404, "not-found")
        is_problem(await http.post("/v1/vision/set-document-type"), 400, "validation-failed")
        is_problem(await http.post("/healthz"), 405, "method-not-allowed")
        assert (await http.get("/healthz")).status_code == 200


async def test_each_problem_has_a_page(acme: Caller) -> None:
    listed = (await acme.http.get("/problems")).text
    for slug, kind in PROBLEMS.items():
        page = await acme.http.get(f"/problems/{slug}")
        assert page.headers["content-type"].startswith("text/html")
        assert kind.title.replace("'", "&#x27;") in page.text
        assert f'href="problems/{slug}"' in listed


async def test_types_point_to_the_documentation_host(running: Installation) -> None:
    async with running.variant(docs_base_url="https://docs.example.com/") as http:
        body = (await http.get("/v1/cards")).json()
    assert body["type"] == "https://docs.example.com/problems/unauthorized"


def test_problems_of_shard_owners_are_in_the_table() -> None:
    """Shard owners name problems by slug and status; both must match ``PROBLEMS``."""
    named = re.compile(r'Problem\(\s*(\d{3}),\s*"([a-z-]+)"')
    found = {
        (int(status), slug)
        for path in [*ROOT.glob("engine/**/*.py"), *ROOT.glob("actors/**/*.py")]
        for status, slug in named.findall(path.read_text())
    }
    assert found
    for status, slug in found:
        assert PROBLEMS[slug].status == status


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("req-1.A_b~c", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False)],
)
async def test_valid_request_id_is_kept_and_an_invalid_one_replaced(
    acme: Caller, sent: str, kept: bool
) -> None:
    response = await acme.http.get("/v1/cards", headers={"X-Request-Id": sent})
    assert (response.headers["x-request-id"] == sent) == kept
    assert response.headers["x-request-id"]


class Failing:
    """A fake of the shard owners and the network that fails with ``failure``."""

    def __init__(self, failure: Exception | Reply) -> None:
        self.failure = failure

    async def submit(
        self,
        command: Command,
        *,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
        act: Act | None = None,
    ) -> Reply:
        if isinstance(self.failure, Exception):
            raise self.failure
        return self.failure

    async def accept(self, request: SimulationRequest) -> Acceptance:
        assert isinstance(self.failure, Exception)
        raise self.failure

    async def spend(self, request: SpendRequest) -> SpendOutcome:
        assert isinstance(self.failure, Exception)
        raise self.failure


def broken(running: Installation, **parts: Any) -> httpx2.AsyncClient:
    app = create_app(replace(running.services, **parts))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api.test")


@pytest.mark.parametrize(
    ("failure", "slug"),
    [
        (NotExecuted("deadline"), "dependency-unavailable"),
        (NotExecuted("overloaded"), "dependency-unavailable"),
        (NotExecuted("unavailable"), "dependency-unavailable"),
        (NotExecuted("faulty"), "internal-error"),
        (RuntimeError("row (4000001234567899)"), "internal-error"),
        (TimeoutError(), "dependency-unavailable"),
    ],
)
async def test_failing_owner_returns_500_without_details(
    running: Installation, acme: Caller, failure: Any, slug: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async with broken(running, owners=Failing(failure)) as http:
        acme.http = http
        response = await acme.send("POST", "/v1/programs", {"name": "A", "currency": "EUR"})
    is_problem(response, 500, slug)
    assert ("retry-after" in response.headers) == (slug == "dependency-unavailable")
    assert "4000001234567899" not in response.text + "".join(capsys.readouterr())


async def test_500_is_not_stored_under_the_idempotency_key(running: Installation, acme: Caller) -> None:
    body = {"name": "A", "currency": "EUR"}
    whole = acme.http
    async with broken(running, owners=Failing(NotExecuted("unavailable"))) as http:
        acme.http = http
        assert (await acme.send("POST", "/v1/programs", body, key="k")).status_code == 500
    acme.http = whole
    assert (await acme.send("POST", "/v1/programs", body, key="k")).status_code == 201


@pytest.mark.parametrize(
    ("failure", "slug"),
    [(NetworkUnavailableError(), "dependency-unavailable"), (ValueError("secret"), "internal-error")],
)
async def test_failing_network_returns_500_without_details(
    running: Installation, acme: Caller, failure: Exception, slug: str
) -> None:
    card = await acme.funded_card()
    body = {
        "card_id": card["id"],
        "amount": {"amount": "1.00", "currency": "EUR"},
        "mcc": "5411",
        "merchant_name": "M",
        "channel": "pos",
    }
    with capture_logs() as lines:
        async with broken(running, network=Failing(failure)) as http:
            acme.http = http
            response = await acme.send("POST", "/v1/simulated-spends", body, key=None)
    is_problem(response, 500, slug)
    assert "secret" not in response.text
    # The response and the log line carry the same request id.
    assert [line["trace"] for line in lines if line.get("fault")] == [response.headers["x-request-id"]]
    assert "secret" not in str(lines)


async def test_requests_in_live_mode_are_rate_limited(running: Installation, tenant: str) -> None:
    live = await running.caller(tenant, mode="live")
    async with running.variant(rate_live_per_second=1) as http:
        live.http = http
        answers = [await live.send("GET", "/v1/cards") for _ in range(6)]
    limited = [answer for answer in answers if answer.status_code == 429]
    assert limited
    is_problem(limited[0], 429, "rate-limited")
    assert limited[0].headers["retry-after"] == "1"


async def test_rate_limit_of_test_mode_exempts_simulations(running: Installation, acme: Caller) -> None:
    unknown = "/v1/simulated-spends/019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
    async with running.variant(rate_live_per_second=1, rate_test_per_second=2) as http:
        acme.http = http
        assert {(await acme.send("GET", unknown)).status_code for _ in range(20)} == {404}
        answers = [await acme.send("GET", "/v1/cards") for _ in range(20)]
    limited = [answer for answer in answers if answer.status_code == 429]
    is_problem(limited[0], 429, "rate-limited")


async def test_api_responses_are_not_cached(running: Installation, acme: Caller) -> None:
    answers = [
        await acme.send("GET", "/v1/cardholders"),
        await acme.send("GET", "/v1/cardholders/unknown"),
        await acme.http.get("/v1/cardholders"),
        await acme.http.post("/v1/oauth/token", json={}),
    ]
    assert [answer.status_code for answer in answers] == [200, 404, 401, 401]
    async with vision_host(running) as http:
        answers.append(await http.post("/v1/vision/capture-session", json={}))
    for answer in answers:
        assert answer.headers.get_list("cache-control") == ["no-store"]
    assert "cache-control" not in (await acme.http.get("/docs/openapi.json")).headers
