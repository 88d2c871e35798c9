"""The console as a client of the API, in process.

A call runs the application's own ASGI routes as the caller of the session. Permissions, rate limits,
idempotency keys, the audit log and problem bodies are those of the API. The caller travels in the ASGI scope
under a key that no HTTP request can set.
"""

from __future__ import annotations

import asyncio
import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlencode

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.access.tokens import Caller
from api.http.problems import FieldError
from api.http.scope import ARRIVED, PREFIX, REQUEST_ID, SESSION_CALLER

_BAD_REQUEST: Final = 400
_SERVER_ERROR: Final = 500
_UNFINISHED: Final = frozenset({"idempotency-in-progress", "rate-limited"})
"""Refusals after which the same form can be sent again."""


class Problem(NamedTuple):
    """A problem body of the API (RFC 9457) as a value."""

    status: int
    kind: str
    """The slug of its kind, such as ``validation-failed``."""
    title: str
    detail: str
    errors: tuple[FieldError, ...] = ()

    def at(self, pointer: str) -> str | None:
        """The sentence about the member at ``pointer`` (RFC 6901), such as ``/amount/currency``."""
        return next((each.detail for each in self.errors if each.pointer == pointer), None)

    @property
    def leaves_doubt(self) -> bool:
        """Whether the operation may have had its effect. Sent again with the same key, it has one effect."""
        return self.status >= _SERVER_ERROR or self.kind in _UNFINISHED

    def below(self, prefix: str) -> Problem:
        """The problem with ``prefix`` before every pointer, for a form that holds the body in a group."""
        moved = (dataclasses.replace(each, pointer=prefix + each.pointer) for each in self.errors)
        return self._replace(errors=tuple(moved))


Answer = dict[str, Any] | Problem
"""The body of a successful answer, or a problem. An answer without a body is an empty object."""


class PageProblem(Exception):  # noqa: N818 -- ends a page with the problem's page; no error of the program
    """Ends a page: the problem is shown instead."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.kind)
        self.problem = problem


class ConsoleApi:
    """Calls the operations of ``app`` as ``caller``, on behalf of the console's ``request``.

    ``key`` is the idempotency key of the form that was sent: a form that is sent twice has one effect.
    """

    def __init__(self, app: ASGIApp, caller: Caller, request: Request, key: str | None = None) -> None:
        self._app = app
        self._caller = caller
        self._request = request
        self._key = key
        self._writes = 0

    async def get(self, path: str, params: Mapping[str, Any] | None = None, **query: Any) -> Answer:
        """Call a GET operation, such as ``/v1/cards``. Parameters that are ``None`` or empty are left out;
        ``params`` is for names that are no identifiers."""
        return await self._call("GET", path, None, _encoded(params, query))

    async def require(
        self, path: str, params: Mapping[str, Any] | None = None, **query: Any
    ) -> dict[str, Any]:
        """As ``get``, for data without which there is no page. Raises ``PageProblem``."""
        answer = await self.get(path, params, **query)
        if isinstance(answer, Problem):
            raise PageProblem(answer)
        return answer

    async def post(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        """Call a POST operation with a JSON body."""
        return await self._call("POST", path, body, key=key or self._next_key())

    async def put(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        """Call a PUT operation with a JSON body."""
        return await self._call("PUT", path, body, key=key or self._next_key())

    async def patch(self, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        """Call a PATCH operation with a JSON body."""
        return await self._call("PATCH", path, body, key=key or self._next_key())

    async def delete(self, path: str, *, key: str | None = None) -> Answer:
        """Call a DELETE operation."""
        return await self._call("DELETE", path, None, key=key or self._next_key())

    def download(
        self, path: str, params: Mapping[str, Any] | None = None, *, filename: str, **query: Any
    ) -> Response:
        """The answer of a GET operation, streamed to the browser, which saves it as ``filename``."""
        return Download(self._app, self._scope("GET", path, _encoded(params, query), None, b""), filename)

    async def _call(
        self, method: str, path: str, body: Any, query: str = "", key: str | None = None
    ) -> Answer:
        content = b"" if body is None else orjson.dumps(body)
        status, answer = 500, bytearray()

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                answer.extend(message.get("body", b""))

        await self._app(self._scope(method, path, query, key, content), _receiver(content), send)
        value: dict[str, Any] = orjson.loads(answer) if answer else {}
        return value if status < _BAD_REQUEST else _problem(status, value)

    def _next_key(self) -> str:
        """The key of the next write: the form's for its first one, keys derived from it afterwards."""
        self._writes += 1
        key = self._key or str(uuid.uuid4())
        return key if self._writes == 1 else f"{key}.{self._writes}"

    def _scope(self, method: str, path: str, query: str, key: str | None, content: bytes) -> Scope:
        outer = self._request.scope
        host = self._request.headers.get("host", "")
        headers = [(b"host", host.encode("latin-1")), (b"x-request-id", outer[REQUEST_ID].encode())]
        if content:
            headers.append((b"content-type", b"application/json"))
        if key is not None:
            headers.append((b"idempotency-key", key.encode()))
        return {
            "type": "http",
            "asgi": outer["asgi"],
            "http_version": outer["http_version"],
            "method": method,
            "scheme": outer["scheme"],
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            PREFIX: outer.get(PREFIX, ""),
            "headers": headers,
            "client": outer["client"],
            "server": outer["server"],
            "state": outer.get("state", {}),
            SESSION_CALLER: self._caller,
            ARRIVED: True,
        }


class Download(Response):
    """A response that streams the answer of an operation, as a file."""

    def __init__(self, app: ASGIApp, scope: Scope, filename: str) -> None:
        super().__init__()
        self._app = app
        self._inner = scope
        self._disposition = f'attachment; filename="{filename}"'.encode("latin-1", "replace")

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        async def send_file(message: Message) -> None:
            if message["type"] == "http.response.start":
                # The outer request adds the headers of every response itself.
                kept = [each for each in message["headers"] if each[0] in _KEPT]
                if message["status"] < _BAD_REQUEST:
                    kept.append((b"content-disposition", self._disposition))
                message = {**message, "headers": kept}
            await send(message)

        await self._app(self._inner, receive, send_file)


_KEPT: Final = frozenset({b"content-type", b"content-length", b"cache-control"})


def _receiver(content: bytes) -> Receive:
    messages: list[Message] = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive() -> Message:
        if not messages:
            # Streamed answers wait here for the end of the connection, which is not before their own.
            await asyncio.get_running_loop().create_future()
        return messages.pop()

    return receive


def _encoded(params: Mapping[str, Any] | None, query: Mapping[str, Any]) -> str:
    given = {**(params or {}), **query}
    return urlencode({name: _text(value) for name, value in given.items() if value not in (None, "")})


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _problem(status: int, body: Mapping[str, Any]) -> Problem:
    errors = tuple(FieldError(**each) for each in body.get("errors", ()))
    return Problem(
        status,
        str(body.get("type", "")).rpartition("/")[2],
        body.get("title", ""),
        body.get("detail", ""),
        errors,
    )
