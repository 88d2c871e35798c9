"""ASGI middleware that gives each request of the API a span (``actors.tracing``), below the caller's
``traceparent`` if there is one. It is not installed while traces are off."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from actors.tracing import Tracer
from api.http.scope import OPERATION, REQUEST_ID

FIRST_FAULT: Final = 500
_API: Final = "/v1/"


class Traces:
    """Surrounds ``Boundary``, so that every answer has its final status."""

    def __init__(self, app: ASGIApp, tracer: Tracer) -> None:
        self._app = app
        self._tracer = tracer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or not scope["path"].startswith(_API):
            await self._app(scope, receive, send)
            return
        given = dict(scope["headers"]).get(b"traceparent", b"").decode("latin-1")
        span = self._tracer.start(
            "http", given, kind="server", attributes={"http.request.method": scope["method"]}
        )
        status: int | None = None

        async def send_observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            with span.current():
                await self._app(scope, receive, send_observed)
        finally:
            attributes = {
                "stanchion.operation": scope.get(OPERATION),
                "stanchion.trace": scope.get(REQUEST_ID),
                "http.response.status_code": status,
            }
            span.end(attributes, failed=status is None or status >= FIRST_FAULT)
