"""The one way of every request: a token that is still good, an idempotency key, retries, typed problems.

A transport may be used by several threads at once.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
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


class Transport:
    """``close`` it at the end; twice is harmless."""

    def __init__(
        self,
        http: httpx2.Client,
        credentials: Credentials,
        retry: RetryPolicy,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``http`` knows the base address and the time limits; ``clock`` and ``sleep`` are in seconds."""
        self._http = http
        self._credentials = credentials
        self._retry = retry
        self._clock = clock
        self._sleep = sleep
        self._token = ""
        self._good_until = 0.0
        self._signing_in = threading.Lock()

    def close(self) -> None:
        self._http.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        body: Mapping[str, Any] | None = None,
        query: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        """The JSON body of the answer, ``None`` where there is none. Raises ProblemError or NoAnswerError.

        A change is sent under ``idempotency_key``, or under a fresh one; all attempts share it.
        """
        key = idempotency_key
        if key is None and method != "GET" and path not in UNKEYED:
            key = str(uuid4())
        headers = {} if key is None else {"Idempotency-Key": key}
        request = self._http.build_request(
            method, path, json=body, params=_without_nothing(query), headers=headers
        )
        repeatable = method == "GET" or key is not None
        try:
            return self._attempts(request, repeatable, key)
        except AuthenticationError:
            # Revoked, or of another life of the installation: nothing was done, so one more try is safe.
            self._good_until = 0.0
            return self._attempts(request, repeatable, key)

    def _attempts(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Any:
        request.headers["Authorization"] = f"Bearer {self._fresh_token()}"
        return self._send(request, repeatable, key)

    def _fresh_token(self) -> str:
        with self._signing_in:
            if self._clock() >= self._good_until:
                self._sign_in()
            return self._token

    def _sign_in(self) -> None:
        credentials = self._credentials
        form = {"grant_type": "client_credentials"}
        if credentials.scope is not None:
            form["scope"] = credentials.scope
        request = self._http.build_request("POST", TOKEN_PATH, data=form)
        secret = httpx2.BasicAuth(credentials.client_id, credentials.client_secret)
        began = self._clock()
        # A second token harms nobody.
        granted = self._send(next(secret.sync_auth_flow(request)), repeatable=True, key=None)
        self._token = granted["access_token"]
        self._good_until = began + granted["expires_in"] - REFRESH_SECONDS

    def _send(self, request: httpx2.Request, repeatable: bool, key: str | None) -> Any:
        attempt = 0
        while True:
            attempt += 1
            failure: Failure
            error: ProblemError | NoAnswerError
            try:
                return _body_of(self._http.send(request), request, key)
            except ProblemError as problem:
                failure = error = problem
            except (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout) as lost:
                failure, error = "not_sent", _no_answer(request, lost, key)
            except httpx2.TransportError as lost:
                failure, error = "no_answer", _no_answer(request, lost, key)
            pause = self._retry.pause(attempt, failure, repeatable=repeatable, chance=random.random())
            if pause is None:
                raise error from None
            self._sleep(pause)


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
