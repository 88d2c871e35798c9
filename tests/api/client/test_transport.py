"""Tokens, keys and retries of both transports, against a scripted server and a manual clock."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from collections.abc import Callable
from typing import Any

import httpx2
import pytest

from stanchion.errors import (
    AuthenticationError,
    ConflictError,
    InvalidRequestError,
    NoAnswerError,
    ProblemError,
    RateLimitedError,
    ServerFaultError,
    StanchionError,
    problem_of,
)
from stanchion.protocol import REFRESH_SECONDS, TOKEN_PATH, Credentials
from stanchion.retries import Failure, RetryPolicy
from stanchion.transport import AsyncTransport, Transport

Answer = httpx2.Response | Exception
Request = Callable[..., Any]
LIFE_SECONDS = 3600
CREDENTIALS = Credentials("id", "secret")


@pytest.fixture(params=["blocking", "awaiting"])
def kind(request: pytest.FixtureRequest) -> str:
    """Each test runs with both transports, which must behave alike."""
    kind: str = request.param
    return kind


class Server:
    """A scripted server: issues tokens, and answers other requests from a list whose last entry repeats."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.token_requests = 0
        self.now = 1000.0
        self.slept: list[float] = []

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == TOKEN_PATH:
            self.token_requests += 1
            token = {"access_token": f"token-{self.token_requests}", "expires_in": LIFE_SECONDS}
            return httpx2.Response(200, json=token)
        # The client resends the same object and may change it, so record a copy.
        self.requests.append(httpx2.Request(request.method, request.url, headers=request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        # httpx2 changes the response object, so each request gets a new one.
        return httpx2.Response(answer.status_code, headers=answer.headers, content=answer.content)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def header(self, name: str) -> list[str | None]:
        return [request.headers.get(name) for request in self.requests]

    async def async_sleep(self, seconds: float) -> None:
        self.sleep(seconds)

    def client(
        self, kind: str, handler: Callable[[httpx2.Request], httpx2.Response] | None = None
    ) -> Request:
        """``Transport.request``, or ``AsyncTransport.request`` run to completion."""
        mock = httpx2.MockTransport(handler or self)
        address = "http://api.test"
        if kind == "blocking":
            http = httpx2.Client(base_url=address, transport=mock)
            return Transport(
                http, CREDENTIALS, RetryPolicy(), clock=lambda: self.now, sleep=self.sleep
            ).request
        transport = AsyncTransport(
            httpx2.AsyncClient(base_url=address, transport=mock),
            CREDENTIALS,
            RetryPolicy(),
            clock=lambda: self.now,
            sleep=self.async_sleep,
        )
        return lambda *args, **kwargs: asyncio.run(transport.request(*args, **kwargs))


def ok(body: object = None) -> httpx2.Response:
    return httpx2.Response(200, json=body if body is not None else {"ok": True})


def problem(status: int, slug: str, **headers: str) -> httpx2.Response:
    body = {"type": f"https://docs.test/problems/{slug}", "title": "T", "status": status, "detail": "D"}
    media = {"content-type": "application/problem+json", "x-request-id": "r-1"}
    return httpx2.Response(status, headers=media | headers, content=json.dumps(body))


def test_one_token_is_used_until_shortly_before_it_expires(kind: str) -> None:
    server = Server(ok())
    request = server.client(kind)
    for _ in range(3):
        request("GET", "/v1/cards")
    server.now += LIFE_SECONDS - REFRESH_SECONDS - 1
    request("GET", "/v1/cards")
    assert server.token_requests == 1
    server.now += 1
    request("GET", "/v1/cards")
    assert server.token_requests == 2
    assert server.header("authorization")[-2:] == ["Bearer token-1", "Bearer token-2"]


def test_refused_token_is_replaced_once(kind: str) -> None:
    server = Server(problem(401, "unauthorized"), ok())
    assert server.client(kind)("GET", "/v1/cards") == {"ok": True}
    assert server.header("authorization") == ["Bearer token-1", "Bearer token-2"]
    refusing = Server(problem(401, "unauthorized"))
    with pytest.raises(AuthenticationError):
        refusing.client(kind)("GET", "/v1/cards")
    assert len(refusing.requests) == 2


def test_many_threads_share_one_token() -> None:
    server = Server(ok())
    request = server.client("blocking")
    together = threading.Barrier(8)

    def ask() -> None:
        together.wait()
        request("GET", "/v1/cards")

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (server.token_requests, len(server.requests)) == (1, 8)


async def test_many_tasks_share_one_token_even_if_the_first_is_cancelled() -> None:
    server = Server(ok())
    requested, resume = asyncio.Event(), asyncio.Event()

    async def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path == TOKEN_PATH:
            requested.set()
            await resume.wait()
        return server(request)

    http = httpx2.AsyncClient(base_url="http://api.test", transport=httpx2.MockTransport(answer))
    transport = AsyncTransport(http, CREDENTIALS, RetryPolicy())
    tasks = [asyncio.create_task(transport.request("GET", "/v1/cards")) for _ in range(8)]
    await requested.wait()
    tasks[0].cancel()
    resume.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(outcomes[0], asyncio.CancelledError)
    assert outcomes[1:] == [{"ok": True}] * 7
    assert (server.token_requests, len(server.requests)) == (1, 7)
    await transport.close()
    await transport.close()


def test_refused_credentials_are_an_error_at_once(kind: str) -> None:
    requested: list[httpx2.Request] = []

    def refuse(request: httpx2.Request) -> httpx2.Response:
        requested.append(request)
        return problem(401, "invalid-client")

    with pytest.raises(AuthenticationError, match="invalid-client"):
        Server().client(kind, refuse)("GET", "/v1/cards")
    assert {request.url.path for request in requested} == {"/v1/oauth/token"}
    assert len(requested) <= 2


@pytest.mark.parametrize(
    ("method", "path", "given", "keys"),
    [
        ("GET", "/v1/cards", None, 0),
        ("POST", "/v1/cards", None, 1),
        ("PATCH", "/v1/cards/1", None, 1),
        ("PUT", "/v1/cards/1/declared-balance", None, 1),
        ("DELETE", "/v1/webhook-endpoints/1", None, 1),
        ("POST", "/v1/cards", "mine", 1),
        ("POST", "/v1/simulated-spends", None, 0),
    ],
)
def test_all_attempts_of_a_change_share_one_key(
    kind: str, method: str, path: str, given: str | None, keys: int
) -> None:
    server = Server(problem(429, "rate-limited"), problem(429, "rate-limited"), ok())
    server.client(kind)(method, path, body={}, idempotency_key=given)
    sent = server.header("idempotency-key")
    assert len(sent) == 3
    assert len(set(sent) - {None}) == keys
    assert len(set(sent)) == 1
    assert given is None or sent[0] == given


READ = httpx2.ReadError("cut")
CONNECT = httpx2.ConnectError("refused")


@pytest.mark.parametrize(
    ("failure", "keyed", "unkeyed"),
    [
        (CONNECT, "again", "again"),
        (READ, "again", NoAnswerError),
        (httpx2.ReadTimeout("slow"), "again", NoAnswerError),
        (problem(429, "rate-limited"), "again", "again"),
        (problem(500, "dependency-unavailable"), "again", ServerFaultError),
        (problem(503, "overloaded"), "again", ServerFaultError),
        (problem(409, "idempotency-in-progress"), "again", ConflictError),
        (problem(409, "card-not-active"), ConflictError, ConflictError),
        (problem(400, "validation-failed"), InvalidRequestError, InvalidRequestError),
        (httpx2.Response(302, headers={"location": "https://elsewhere.test/"}), NoAnswerError, NoAnswerError),
        (httpx2.Response(200, content=b"<html>"), NoAnswerError, NoAnswerError),
    ],
)
def test_retry_only_if_a_second_effect_is_impossible(
    kind: str, failure: Answer, keyed: str | type[StanchionError], unkeyed: str | type[StanchionError]
) -> None:
    for path, expected in (("/v1/cards", keyed), ("/v1/simulated-spends", unkeyed)):
        server = Server(failure, ok())
        request = server.client(kind)
        if expected == "again":
            assert request("POST", path, body={}) == {"ok": True}
            assert len(server.slept) == 1
        else:
            assert isinstance(expected, type)
            with pytest.raises(expected):
                request("POST", path, body={})
            assert len(server.requests) == 1


def test_no_answer_error_carries_the_idempotency_key(kind: str) -> None:
    server = Server(READ)
    with pytest.raises(NoAnswerError, match=r"^POST /v1/cards: ReadError$") as raised:
        server.client(kind)("POST", "/v1/cards", body={}, idempotency_key="k-1")
    assert raised.value.idempotency_key == "k-1"
    assert len(server.requests) == RetryPolicy().attempts


def test_retry_after_sets_the_pause(kind: str) -> None:
    server = Server(problem(429, "rate-limited", **{"retry-after": "3"}), ok())
    server.client(kind)("GET", "/v1/cards")
    assert server.slept == [3.0]


def test_long_retry_after_ends_the_retries(kind: str) -> None:
    server = Server(problem(429, "rate-limited", **{"retry-after": "60"}))
    with pytest.raises(RateLimitedError) as raised:
        server.client(kind)("GET", "/v1/cards")
    assert raised.value.retry_after == 60.0
    assert server.slept == []


@pytest.mark.parametrize(
    ("attempt", "failure", "chance", "pause"),
    [
        (1, "no_answer", 0.0, 0.1),
        (1, "no_answer", 1.0, 0.2),
        (2, "no_answer", 1.0, 0.4),
        (3, "no_answer", 1.0, 0.8),
        (4, "no_answer", 1.0, None),
    ],
)
def test_pauses_double_up_to_a_maximum(
    attempt: int, failure: Failure, chance: float, pause: float | None
) -> None:
    assert RetryPolicy().pause(attempt, failure, repeatable=True, chance=chance) == pause
    longest = RetryPolicy(attempts=99).pause(50, failure, repeatable=True, chance=1.0)
    assert longest == RetryPolicy().pause_seconds_max


def test_problem_error_has_all_members_of_the_body() -> None:
    body = {
        "type": "https://docs.test/problems/validation-failed",
        "title": "The request is not valid",
        "status": 400,
        "detail": "One member is not valid.",
        "errors": [{"pointer": "/mcc", "code": "format", "detail": "Four digits."}],
    }
    error = problem_of(400, {"x-request-id": "r-9"}, body)
    assert isinstance(error, InvalidRequestError)
    assert (error.slug, error.errors[0].pointer, error.request_id) == ("validation-failed", "/mcc", "r-9")
    assert str(error) == "400 validation-failed: One member is not valid.; /mcc: Four digits."
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("body", [None, [], "text", {"title": "x"}])
def test_error_without_a_problem_body_is_a_problem_error(body: object) -> None:
    error = problem_of(502, {}, body)
    assert isinstance(error, ServerFaultError)
    assert error.slug == "no-problem-body"
    assert type(problem_of(418, {}, body)) is ProblemError


def test_secrets_stay_out_of_representations() -> None:
    assert "secret-of-mine" not in repr(Credentials("id", "secret-of-mine"))
