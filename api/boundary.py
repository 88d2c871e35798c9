"""The outermost layer: every response has an ``X-Request-Id``, every refusal and every fault becomes a
problem body here, and every request is counted.

Written as plain ASGI: it sits around everything, also what the framework answers by itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.ids import new_id
from actors.log import TRACE
from api.counts import CLIENT_GONE, OPERATION, RestCounts
from api.faults import refusal_of
from api.problems import Refusal, problem_response

REQUEST_ID: Final = "stanchion.request_id"
"""The key of the request's id in the ASGI scope."""

NO_STORE: Final = (b"cache-control", b"no-store")

# What may be taken over from the caller: it goes into logs and back into a header.
_ACCEPTABLE: Final = re.compile(rb"[A-Za-z0-9._~-]{1,128}")


class Boundary:
    """ASGI middleware; ``base_url`` is the documentation host that problem types point to."""

    def __init__(self, app: ASGIApp, base_url: str | None, counts: RestCounts) -> None:
        self._app = app
        self._base_url = base_url
        self._counts = counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request_id = scope[REQUEST_ID] = _request_id(scope)
        # The server gives each request a task, and so a context, of its own.
        TRACE.set(request_id)
        own = [(b"x-request-id", request_id.encode())]
        # Answers may hold personal data or secrets: browsers and proxies must not keep them.
        if scope["path"].startswith("/v1/"):
            own.append(NO_STORE)
        status = CLIENT_GONE

        async def send_identified(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                given = message.get("headers", ())
                message["headers"] = [*given, *(each for each in own if not _has(given, each[0]))]
            await send(message)

        try:
            await self._app(scope, receive, send_identified)
        except ClientDisconnect:
            pass  # nobody is left to be answered
        except Exception as failure:  # noqa: BLE001 -- the last line: no traceback and no value may leave the process
            refusal = failure if isinstance(failure, Refusal) else refusal_of(failure, request_id)
            if status is CLIENT_GONE:
                response = problem_response(refusal, request_id, self._base_url)
                await response(scope, receive, send_identified)
        finally:
            self._counts.answered(scope.get(OPERATION, "other"), status, time.monotonic() - began)


def _has(headers: Iterable[tuple[bytes, bytes]], name: bytes) -> bool:
    return any(known.lower() == name for known, _ in headers)


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and _ACCEPTABLE.fullmatch(value):
            return str(value.decode("ascii"))
    return new_id()
