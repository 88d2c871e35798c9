"""A collector for OpenTelemetry: an HTTP server that takes OTLP requests in protobuf, as a real one does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclass(frozen=True)
class ReceivedSpan:
    """A span, with ids in hexadecimal digits. ``parent_id`` is empty for the first span of a trace."""

    name: str
    process: str
    trace_id: str
    span_id: str
    parent_id: str
    begin_ns: int
    end_ns: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """``spans`` in the order of their arrival. ``status`` is the answer to each request."""

    url: str = ""
    status: int = 200
    spans: list[ReceivedSpan] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)

    async def receive(self, request: web.Request) -> web.Response:
        """Take one export."""
        self.headers.append(dict(request.headers))
        exported = ExportTraceServiceRequest.FromString(await request.read())
        if self.status != 200:
            return web.Response(status=self.status)
        for resource in exported.resource_spans:
            process = _attributes(resource.resource.attributes)["service.instance.id"]
            for scope in resource.scope_spans:
                self.spans += [_span(each, process) for each in scope.spans]
        body = ExportTraceServiceResponse().SerializeToString()
        return web.Response(body=body, content_type="application/x-protobuf")


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """A collector on a free port."""
    found = Collector()
    app = web.Application()
    app.router.add_post("/v1/traces", found.receive)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        address = runner.addresses[0]
        found.url = f"http://{address[0]}:{address[1]}"
        yield found
    finally:
        await runner.cleanup()


def _span(span: Any, process: str) -> ReceivedSpan:
    return ReceivedSpan(
        span.name,
        process,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.status.code == span.status.STATUS_CODE_ERROR,
        _attributes(span.attributes),
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
