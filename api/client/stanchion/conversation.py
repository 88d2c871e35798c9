"""The one way of every request, without any I/O: a token that is still good, an idempotency key, retries,
typed problems, pages.

Whatever takes several turns is a generator of *steps*. It says what to do next and is sent what came of it;
the two transports do it, one blocking and one awaiting, and decide nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, TypeVar
from uuid import uuid4

import httpx2

from stanchion.errors import AuthenticationError, NoAnswerError, ProblemError, problem_of
from stanchion.retries import Failure, RetryPolicy

TOKEN_PATH: Final = "/v1/oauth/token"
REFRESH_SECONDS: Final = 60.0
"""A token is replaced this long before it expires, so that none expires on its way."""

# Each accepted call is a wire transaction of its own (spec 4.3), so these take no key and are not repeatable.
UNKEYED: Final = frozenset({"/v1/simulated-spends"})


@dataclass(frozen=True)
class Credentials:
    """An API client's, for OAuth 2.0 client credentials. ``scope``: less than all that the client may do."""

    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True)
class Send:
    """Send the request. What comes of it: the response, or the error that no response came by."""

    request: httpx2.Request


@dataclass(frozen=True)
class Pause:
    """Let so many seconds pass."""

    seconds: float


@dataclass(frozen=True)
class SignIn:
    """Walk through ``Conversation.token``, one at a time. What comes of it: a token that is good."""


T = TypeVar("T")
Step: TypeAlias = Send | Pause | SignIn
Steps: TypeAlias = Generator[Step, Any, T]


class Conversation:
    """What one API client says and what it makes of the answers.

    ``http`` builds requests (it knows the base address) and is never used to send one. ``clock``: in seconds.
    """

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
        self._good_until = 0.0

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        key: str | None = None,
    ) -> Steps[Any]:
        """The JSON body of the answer, ``None`` where there is none. Raises ProblemError or NoAnswerError.

        A change is sent under ``key``, or under a fresh one; all attempts share it.
        """
        if key is None and method != "GET" and path not in UNKEYED:
            key = str(uuid4())
        headers = {} if key is None else {"Idempotency-Key": key}
        request = self._http.build_request(
            method, path, json=body, params=_without_nothing(query), headers=headers
        )
        repeatable = method == "GET" or key is not None
        try:
            return (yield from self._attempts(request, repeatable, key))
        except AuthenticationError:
            # Revoked, or of another life of the installation: nothing was done, so one more try is safe.
            self._good_until = 0.0
            return (yield from self._attempts(request, repeatable, key))

    def token(self) -> Steps[str]:
        """A token that is still good. Whoever walks through this sees to it that nobody else does."""
        if self.clock() >= self._good_until:
            yield from self._grant()
        return self._token

    def _attempts(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Steps[Any]:
        token = yield SignIn()
        request.headers["Authorization"] = f"Bearer {token}"
        return (yield from self._sent(request, repeatable, key))

    def _grant(self) -> Steps[None]:
        credentials = self._credentials
        form = {"grant_type": "client_credentials"}
        if credentials.scope is not None:
            form["scope"] = credentials.scope
        request = self._http.build_request("POST", TOKEN_PATH, data=form)
        secret = httpx2.BasicAuth(credentials.client_id, credentials.client_secret)
        began = self.clock()
        # A second token harms nobody.
        granted = yield from self._sent(next(secret.sync_auth_flow(request)), repeatable=True, key=None)
        self._token = granted["access_token"]
        self._good_until = began + granted["expires_in"] - REFRESH_SECONDS

    def _sent(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Steps[Any]:
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
    """The query that a walk begins with."""
    return {**(query or {}), "starting_after": None}


def page_after(asked: Mapping[str, Any], page: Mapping[str, Any]) -> dict[str, Any] | None:
    """The query for the page after ``page``, which ``asked`` was for; ``None`` when it was the last."""
    return {**asked, "starting_after": page["next_cursor"]} if page["has_more"] else None


def _failure_of(lost: httpx2.TransportError) -> Failure:
    unsent = httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout
    return "not_sent" if isinstance(lost, unsent) else "no_answer"


def _body_of(response: httpx2.Response, request: httpx2.Request, key: str | None) -> Any:
    try:
        body = response.json() if response.content else None
    except ValueError:
        body = None
    if response.status_code >= 400:
        raise problem_of(response.status_code, response.headers, body)
    if response.is_redirect or (body is None and response.content):
        raise NoAnswerError(f"{request.method} {request.url.path}: the answer is not the API's", key)
    return body


def _no_answer(request: httpx2.Request, lost: Exception, key: str | None) -> NoAnswerError:
    return NoAnswerError(f"{request.method} {request.url.path}: {type(lost).__name__}", key)


def _without_nothing(query: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {name: value for name, value in query.items() if value is not None} if query else None
