"""Traces for OpenTelemetry: one span for each stage of a command, sent to a collector over OTLP.

Off unless ``STANCHION_OTLP_ENDPOINT`` is set: then no object of this module exists, and a stage costs one
comparison with ``None``. The spans of an authorization are children of each other::

    edge (or http) ── router ── host ── commit

A process receives its parent as a ``traceparent`` (W3C Trace Context, section 3.2) beside the command. Spans
have ids, amounts' currencies and response codes as attributes, and neither card numbers nor names. A full
queue drops spans; a collector that is slow or absent delays no decision.

OpenTelemetry is an extra of the package: ``pip install 'stanchion[otel]'``.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, Literal

from actors.settings import PREFIX, Settings, SettingsError
from engine.commands import Command
from engine.replies import Done, NotExecuted, Problem, Reply, WireAnswer

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan

Value = str | int | bool
Kind = Literal["server", "client", "internal"]

PARENT: Final[ContextVar[str | None]] = ContextVar("parent", default=None)
"""The ``traceparent`` of the current span."""

QUEUE_SPANS_MAX: Final = 8_192
"""Spans of one process that wait for export; later ones are dropped."""
BATCH_SPANS_MAX: Final = 512
EXPORT_EVERY_MS: Final = 1_000
EXPORT_SECONDS_MAX: Final = 5
"""Longest call to the collector; also the longest wait for it when a process stops."""
PATH: Final = "/v1/traces"
_TRACEPARENT: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_NANOSECONDS: Final = 1_000_000_000
_MISSING: Final = f"{PREFIX}OTLP_ENDPOINT: OpenTelemetry is not installed: pip install 'stanchion[otel]'"


class Span:
    """One stage of one command. ``end`` is called once; later calls have no effect."""

    __slots__ = ("_span", "traceparent")

    def __init__(self, span: OtelSpan) -> None:
        self._span = span
        context = span.get_span_context()
        self.traceparent = f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def end(self, attributes: Mapping[str, Value | None] | None = None, *, failed: bool = False) -> None:
        """End the span now. ``failed``: a fault, not a decline."""
        if self._span.is_recording():
            for name, value in (attributes or {}).items():
                if value is not None:
                    self._span.set_attribute(name, value)
            if failed:
                self._span.set_status(_error_status())
        self._span.end()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this span the parent of the commands that are submitted inside the block."""
        token = PARENT.set(self.traceparent)
        try:
            yield
        finally:
            PARENT.reset(token)


class Tracer:
    """Starts the spans of one process, and exports them in a thread of its own."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry.trace import SpanKind

        self._provider = provider
        self._tracer = provider.get_tracer("stanchion")
        self._kinds = {
            "server": SpanKind.SERVER,
            "client": SpanKind.CLIENT,
            "internal": SpanKind.INTERNAL,
        }

    def start(
        self,
        name: str,
        parent: str | None = None,
        *,
        kind: Kind = "internal",
        attributes: Mapping[str, Value | None] | None = None,
    ) -> Span:
        """Start a span below ``parent``, a ``traceparent``; without one, or with a malformed one, a new
        trace."""
        span = self._tracer.start_span(
            name, _context(parent), kind=self._kinds[kind], attributes=_present(attributes)
        )
        return Span(span)

    def record(self, name: str, parent: Span, seconds: float, attributes: Mapping[str, Value]) -> None:
        """Record a span that lasted ``seconds`` and ends now."""
        end = time.time_ns()
        span = self._tracer.start_span(
            name,
            _context(parent.traceparent),
            start_time=end - int(seconds * _NANOSECONDS),
            attributes=_present(attributes),
        )
        span.end(end)

    def close(self) -> None:
        """Export what is queued and stop; blocks, but no longer than ``EXPORT_SECONDS_MAX``."""
        # Without a collector each waiting batch costs a time-out of its own. The thread does not keep the
        # process alive.
        stopping = Thread(target=self._provider.shutdown, name="traces", daemon=True)
        stopping.start()
        stopping.join(EXPORT_SECONDS_MAX)


def check_exporter(settings: Settings) -> None:
    """Raise SettingsError if traces are on and the extra is not installed."""
    if settings.otlp_endpoint is None:
        return
    # `find_spec` raises an exception if the package above is absent too.
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.proto") is None:
        raise SettingsError(_MISSING)


def open_tracer(settings: Settings, process: str) -> Tracer | None:
    """The tracer of ``process``, or ``None`` if traces are off. Raises SettingsError if the extra is not
    installed."""
    if settings.otlp_endpoint is None:
        return None
    try:
        from opentelemetry.exporter.otlp.proto.http import Compression
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
    except ImportError:
        raise SettingsError(_MISSING) from None
    exporter = OTLPSpanExporter(
        endpoint=settings.otlp_endpoint + PATH,
        headers=dict(settings.otlp_headers_by_name),
        timeout=EXPORT_SECONDS_MAX,
        compression=Compression.Gzip,
    )
    provider = TracerProvider(
        resource=Resource({"service.name": "stanchion", "service.instance.id": process}),
        sampler=ParentBased(TraceIdRatioBased(settings.trace_ratio)),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(
        BatchSpanProcessor(
            exporter,
            max_queue_size=QUEUE_SPANS_MAX,
            max_export_batch_size=BATCH_SPANS_MAX,
            schedule_delay_millis=EXPORT_EVERY_MS,
            export_timeout_millis=EXPORT_SECONDS_MAX * 1_000,
        )
    )
    return Tracer(provider)


async def close_tracer(tracer: Tracer | None) -> None:
    """Close ``tracer``, if there is one, without blocking the event loop."""
    if tracer is not None:
        await asyncio.to_thread(tracer.close)


def _context(parent: str | None) -> Any:
    """The OpenTelemetry context with ``parent`` as its current span; an empty one starts a new trace."""
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    found = None if parent is None else _TRACEPARENT.fullmatch(parent)
    if found is None:
        return Context()
    trace_id, span_id, flags = (int(group, 16) for group in found.groups())
    remote = SpanContext(trace_id, span_id, is_remote=True, trace_flags=TraceFlags(flags))
    return set_span_in_context(NonRecordingSpan(remote), Context()) if remote.is_valid else Context()


def command_name(command: Command) -> str:
    """The command's name between processes, for example ``authorize``."""
    return str(type(command).__struct_config__.tag)


def reply_attributes(reply: Reply) -> dict[str, Value | None]:
    """The outcome of a command."""
    if isinstance(reply, WireAnswer):
        return {
            "stanchion.response_code": reply.response_code,
            "stanchion.reason": reply.reason,
            "stanchion.authorization_id": reply.authorization_id,
            "stanchion.replayed": reply.replayed or None,
        }
    if isinstance(reply, Done):
        return {"stanchion.status": reply.status, "stanchion.replayed": reply.replayed or None}
    if isinstance(reply, Problem):
        return {"stanchion.status": reply.status, "stanchion.reason": reply.slug}
    return {"stanchion.reason": reply.reason} if isinstance(reply, NotExecuted) else {}


def _present(attributes: Mapping[str, Value | None] | None) -> dict[str, Value]:
    return {name: value for name, value in (attributes or {}).items() if value is not None}


def _error_status() -> Any:
    from opentelemetry.trace import Status, StatusCode

    return Status(StatusCode.ERROR)
