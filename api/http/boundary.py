"""The outermost middleware: it adds ``X-Request-Id`` and security headers to every response, turns refusals
and faults into problem bodies, and counts requests.

It is plain ASGI, because it also surrounds the responses that the framework makes by itself.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from typing import Final

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.ids import new_id
from actors.log import TRACE
from actors.setting_values import is_path_prefix
from actors.source_address import Network, is_trusted
from api.http.counts import CLIENT_GONE, RestCounts
from api.http.faults import refusal_of
from api.http.problems import Refusal, problem_response
from api.http.scope import ARRIVED, OPERATION, PREFIX, REQUEST_ID, SESSION_CALLER, TENANT
from api.http.security_headers import HSTS, SECURITY_HEADERS

NO_STORE: Final = (b"cache-control", b"no-store")

# Request ids that callers may choose: they go into logs and into a response header.
_ACCEPTABLE: Final = re.compile(rb"[A-Za-z0-9._~-]{1,128}")


# A reg-name or an address with an optional port (RFC 3986, section 3.2.2).
_HOST: Final = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
_CLOSE: Final = (b"connection", b"close")


class Boundary:
    """ASGI middleware. ``base_url`` is the documentation host in the ``type`` of problems; ``trusted`` are
    the proxies whose ``X-Forwarded-Proto`` and ``X-Forwarded-Prefix`` are used; ``root_path`` is the prefix
    under which a proxy serves this server, and which it may leave in the path or strip.
    """

    def __init__(
        self,
        app: ASGIApp,
        base_url: str | None,
        counts: RestCounts,
        trusted: Sequence[Network] = (),
        root_path: str = "",
    ) -> None:
        self._app = app
        self._base_url = base_url
        self._counts = counts
        self._trusted = tuple(trusted)
        self._root_path = root_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        request_id, hosts = _read_headers(scope)
        scope[REQUEST_ID] = request_id
        self._read_proxy(scope)
        # The server gives each request a task, and so a context, of its own.
        TRACE.set(request_id)
        TENANT.set(None)
        header = (b"x-request-id", request_id.encode())
        status = CLIENT_GONE

        async def send_identified(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                headers = [*message.get("headers", ()), header]
                _complete(headers, scope)
                message["headers"] = headers
            await send(message)

        try:
            if (
                len(hosts) > 1
                or (not hosts and scope["http_version"] == "1.1")
                or not all(map(_HOST.fullmatch, hosts))
            ):
                raise Refusal("malformed-request", "A request has one Host header, a host name.")
            await self._app(scope, receive, send_identified)
        except ClientDisconnect:
            pass  # the client has disconnected
        except Exception as failure:  # noqa: BLE001 -- no traceback and no value may leave the process
            refusal = failure if isinstance(failure, Refusal) else refusal_of(failure, request_id)
            if status is CLIENT_GONE:
                response = problem_response(refusal, request_id, self._base_url or scope[PREFIX])
                await response(scope, receive, send_identified)
        finally:
            self._counts.answered(scope.get(OPERATION, "other"), status, time.monotonic() - began)

    def _read_proxy(self, scope: Scope) -> None:
        """Take scheme and path prefix from a trusted proxy: clients used them to reach the proxy. The prefix
        of the setting is stripped where the proxy has left it."""
        if SESSION_CALLER in scope:
            return  # a call in process: the outer request has passed here
        prefix, path = self._root_path, scope["path"]
        if prefix and (path == prefix or path.startswith(f"{prefix}/")):
            scope["path"] = path[len(prefix) :] or "/"
        client = scope["client"] if self._trusted else None
        if client is not None and is_trusted(client[0], self._trusted):
            for name, value in scope["headers"]:
                if name == b"x-forwarded-proto" and value in (b"https", b"http"):
                    scope["scheme"] = value.decode()
                elif name == b"x-forwarded-prefix":
                    given = value.decode("latin-1").rstrip("/")
                    prefix = given if is_path_prefix(given) else prefix
        scope[PREFIX] = prefix


def _read_headers(scope: Scope) -> tuple[str, list[bytes]]:
    """The request's id, the caller's if it is acceptable, and the values of ``Host``."""
    request_id, hosts = None, []
    for name, value in scope["headers"]:
        if name == b"host":
            hosts.append(value)
        elif name == b"x-request-id" and request_id is None and _ACCEPTABLE.fullmatch(value):
            request_id = value.decode("ascii")
    return request_id or new_id(), hosts


def _complete(headers: list[tuple[bytes, bytes]], scope: Scope) -> None:
    """Add missing security headers; close the connection when the response precedes the end of the
    request."""
    given = {name for name, _ in headers}
    headers += [header for header in SECURITY_HEADERS if header[0] not in given]
    # Answers may hold personal data or secrets: browsers and proxies must not keep them.
    if scope["path"].startswith("/v1/") and NO_STORE[0] not in given:
        headers.append(NO_STORE)
    if scope["scheme"] == "https":
        headers.append(HSTS)
    if not scope.get(ARRIVED, True) and b"connection" not in given:
        headers.append(_CLOSE)
