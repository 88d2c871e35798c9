"""The client's protocol without I/O: a valid token, an idempotency key, retries, typed problems, pages.

Each procedure is a generator of *actions*. It yields the next action and receives its outcome. The two
transports perform the actions, one blocking and one with asyncio, and contain no decisions of their own.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import httpx2

from stanchion.content import Content
from stanchion.errors import AuthenticationError, NoAnswerError, ProblemError, problem_of
from stanchion.retries import Failure, RetryPolicy

TOKEN_PATH: Final = "/v1/oauth/token"
REFRESH_SECONDS: Final = 60.0
"""A token is replaced this long before it expires, so that it cannot expire in transit."""

# Each accepted call is a new transaction on the wire, so these operations take no key and are not repeatable.
UNKEYED: Final = frozenset({"/v1/simulated-spends"})


@dataclass(frozen=True)
class Credentials:
    """OAuth 2.0 client credentials. ``scope`` restricts the token; ``None`` means all scopes of the
    client."""

    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True)
class Send:
    """Send the request. Outcome: the response, or the transport error."""

    request: httpx2.Request


@dataclass(frozen=True)
class Receive:
    """Send the request, and give a body that is content to ``content`` piece by piece, as it is on the wire.
    Outcome: the response, or the transport error."""

    request: httpx2.Request
    content: Content


@dataclass(frozen=True)
class Pause:
    """Wait this long."""

    seconds: float


@dataclass(frozen=True)
class GetToken:
    """Run ``ClientProtocol.token`` under the transport's lock. Outcome: a valid token."""


T = TypeVar("T")
Action: TypeAlias = Send | Receive | Pause | GetToken
Actions: TypeAlias = Generator[Action, Any, T]


class ClientProtocol:
    """Requests and their procedures for one API client.

    ``http`` builds requests, because it knows the base address, and never sends one. ``clock`` counts
    seconds."""

    def __init__(
        self,
        http: httpx2.Client | httpx2.AsyncClient,
        credentials: Credentials,
        retry: RetryPolicy,
        clock: Callable[[], float],
    ) -> None:
        self.clock = clock
        self._http = http
        self._credentials = credentials
        self._retry = retry
        self._token = ""
        self._token_valid_until = 0.0

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Actions[Any]:
        """The JSON body of the answer, the text of a CSV, or ``None``. Raises ProblemError or NoAnswerError.

        A change is sent under ``key``, or under a new one; all attempts share it.
        """
        if key is None and method != "GET" and path not in UNKEYED:
            key = str(uuid4())
        headers = {} if key is None else {"Idempotency-Key": key}
        request = self._http.build_request(
            method, path, json=body, params=_without_none(query), headers=headers
        )
        repeatable = method == "GET" or key is not None
        try:
            return (yield from self._send_authorized(request, repeatable, key))
        except AuthenticationError:
            # The token was revoked, or belongs to an earlier database. The request had no effect, so one
            # retry is safe.
            self._token_valid_until = 0.0
            return (yield from self._send_authorized(request, repeatable, key))

    def receive(self, address: str, content: Content) -> Actions[None]:
        """Receive the content at ``address``, which needs no token. A cut download goes on where it ended.
        The policy for retries limits the attempts in a row that bring no new byte. Raises ProblemError or
        NoAnswerError."""
        attempt = 0
        while not content.is_complete():
            received = content.received
            request = self._http.build_request("GET", address, headers=content.headers())
            outcome: httpx2.Response | httpx2.TransportError = yield Receive(request, content)
            attempt = 1 if content.received > received else attempt + 1
            failure: Failure = "no_answer"
            error: ProblemError | NoAnswerError = NoAnswerError("the download of the content was cut", None)
            if isinstance(outcome, httpx2.TransportError):
                failure, error = _failure_of(outcome), _no_answer(request, outcome, None)
            elif outcome.status_code >= 400:
                failure = error = problem_of(outcome.status_code, outcome.headers, _json(outcome))
            elif content.is_complete():
                return
            pause = self._retry.pause(attempt, failure, repeatable=True, chance=random.random())
            if pause is None:
                raise error
            yield Pause(pause)

    def token(self) -> Actions[str]:
        """A valid token. The transport runs this under a lock, so only one token is requested at a time."""
        if self.clock() >= self._token_valid_until:
            yield from self._request_token()
        return self._token

    def _send_authorized(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Actions[Any]:
        token = yield GetToken()
        request.headers["Authorization"] = f"Bearer {token}"
        return (yield from self._send_with_retries(request, repeatable, key))

    def _request_token(self) -> Actions[None]:
        credentials = self._credentials
        form = {"grant_type": "client_credentials"}
        if credentials.scope is not None:
            form["scope"] = credentials.scope
        request = self._http.build_request("POST", TOKEN_PATH, data=form)
        secret = httpx2.BasicAuth(credentials.client_id, credentials.client_secret)
        began = self.clock()
        # Requesting a second token has no side effect, so this is repeatable.
        request = next(secret.sync_auth_flow(request))
        granted = yield from self._send_with_retries(request, repeatable=True, key=None)
        self._token = granted["access_token"]
        self._token_valid_until = began + granted["expires_in"] - REFRESH_SECONDS

    def _send_with_retries(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Actions[Any]:
        attempt = 0
        while True:
            attempt += 1
            outcome: httpx2.Response | httpx2.TransportError = yield Send(request)
            failure: Failure
            error: ProblemError | NoAnswerError
            if isinstance(outcome, httpx2.TransportError):
                failure, error = _failure_of(outcome), _no_answer(request, outcome, key)
            else:
                try:
                    return _body_of(outcome, request, key)
                except ProblemError as problem:
                    failure = error = problem
            pause = self._retry.pause(attempt, failure, repeatable=repeatable, chance=random.random())
            if pause is None:
                raise error from None
            yield Pause(pause)


def first_page(query: Mapping[str, Any] | None) -> dict[str, Any]:
    """The query for the first page."""
    return {**(query or {}), "starting_after": None}


def page_after(query: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any] | None:
    """The query for the page after ``page``, the result of ``query``; ``None`` after the last page."""
    return {**query, "starting_after": page["next_cursor"]} if page["has_more"] else None


def _failure_of(error: httpx2.TransportError) -> Failure:
    unsent = httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout
    return "not_sent" if isinstance(error, unsent) else "no_answer"


def _body_of(response: httpx2.Response, request: httpx2.Request, key: str | None) -> Any:
    if response.status_code < 300 and response.headers.get("content-type", "").startswith("text/csv"):
        return response.text
    body = _json(response)
    if response.status_code >= 400:
        raise problem_of(response.status_code, response.headers, body)
    if response.is_redirect or (body is None and response.content):
        raise NoAnswerError(f"{request.method} {request.url.path}: the answer did not come from the API", key)
    return body


def _json(response: httpx2.Response) -> Any:
    try:
        return response.json() if response.content else None
    except ValueError:
        return None


def _no_answer(request: httpx2.Request, error: Exception, key: str | None) -> NoAnswerError:
    return NoAnswerError(f"{request.method} {request.url.path}: {type(error).__name__}", key)


def _without_none(query: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {name: value for name, value in query.items() if value is not None} if query else None
