"""The HTTP/1.1 protocol of one connection: malformed, oversized and slow requests get problem bodies, and
every connection has deadlines.

uvicorn alone answers malformed requests in plain text, has no limit for the size or the time of a request's
head, and keeps connections open whose peer sends or reads too slowly. This protocol adds those limits to
uvicorn's.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from actors.connections import Admission, ConnectionTable, Drain
from actors.ids import new_id
from api.http.closing_transport import ClosingTransport
from api.http.problems import Refusal, problem_response
from api.http.scope import ARRIVED
from api.http.security_headers import SECURITY_HEADERS
from engine.limits import HTTP_FRAMING_BYTES_MAX, HTTP_HEAD_BYTES_MAX, HTTP_PIPELINE_MAX


class ProblemProtocol(HttpToolsProtocol):
    """One connection of ``table``.

    ``base_url``: the documentation host in the ``type`` of problems, if there is one; ``admission``: for
    connections that were counted before; ``options``: uvicorn's.
    """

    def __init__(
        self,
        table: ConnectionTable,
        base_url: str | None = None,
        admission: Admission | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self._table = table
        self._base_url = base_url
        self._admission = admission
        self._refusal: Refusal | None = None
        self._drain = Drain()
        self._deadline: float | None = None
        # The head being read, or waited for.
        self._in_head = True
        self._head_begun = False
        self._head_bytes = 0
        # The body being read.
        self._body_bytes = 0
        self._body_wire_bytes = 0
        self._feed_bytes = 0
        self._messages = 0
        self._linger_bytes = 0

    # --- the connection -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", ClosingTransport(transport, self)))
        if self._admission is None:
            self._admission = self._table.admit(self.client[0] if self.client else None)
        self._table.add(self)
        if self._admission is None:
            # Not counted, so it must not linger.
            refusal = Refusal("rate-limited", "Too many connections.", headers={"Retry-After": "5"})
            self.transport.write(self._response(refusal))
            self._connection.close_now()
        else:
            self._deadline = self._table.now() + self._table.limits.head_seconds

    def connection_lost(self, exc: Exception | None) -> None:
        self._table.remove(self)
        if self._admission is not None:
            self._admission.end()
        super().connection_lost(exc)
        # uvicorn leaves it running when the connection ended with an error.
        self._unset_keepalive_if_required()

    def enforce(self, now: float) -> None:
        """Close the connection if a deadline has passed; called by its table."""
        limits = self._table.limits
        if self._drain.overdue(self.transport.get_write_buffer_size(), now, limits.drain_seconds):
            self._connection.abort()
        elif self._deadline is not None and now >= self._deadline:
            self._deadline = None
            if self.transport.is_closing():
                self._connection.close_now()
            else:
                self._refuse(Refusal("request-timeout", "The head of the request took too long."))

    def evict(self) -> None:
        """Close between two requests; called by the table."""
        self.transport.close()

    def request_unfinished(self) -> bool:
        """Whether a request has begun and not ended; then ``close`` lingers."""
        return not self._in_head or self._head_begun

    def linger(self) -> None:
        """Read and discard for a while, so that the client gets the answer; called by the transport."""
        self._deadline = self._table.now() + self._table.limits.linger_seconds
        self.flow.resume_reading()

    # --- received data ------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            self._linger_bytes += len(data)
            if self._linger_bytes > self._table.limits.linger_bytes_max:
                self._connection.close_now()
            return
        self._table.idle.pop(self, None)
        self._feed_bytes = len(data)
        messages = self._messages
        super().data_received(data)
        # Most requests arrive in one read: they need neither a limit nor a deadline.
        if not self._in_head:
            self._count_body(len(data))
        elif self._head_begun or self._messages == messages:
            self._count_head(len(data))

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._head_begun = True

    def on_headers_complete(self) -> None:
        if (
            self._head_bytes + self._feed_bytes > HTTP_HEAD_BYTES_MAX
            and self._head_size() > HTTP_HEAD_BYTES_MAX
        ):
            self._fail(Refusal("request-head-too-large"))
        if len(self.pipeline) >= HTTP_PIPELINE_MAX:
            self._fail(Refusal("rate-limited", "Too many requests wait on this connection."))
        self._in_head = self._head_begun = False
        self._deadline = None
        self._head_bytes = self._body_bytes = self._body_wire_bytes = 0
        self.scope[ARRIVED] = False  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_head = True
        self._messages += 1
        self.scope[ARRIVED] = True  # type: ignore[typeddict-unknown-key]
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.timeout_keep_alive_task is not None and not self.request_unfinished():
            self._table.idle[self] = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn's text, which ours replaces
        self._refuse(self._refusal or Refusal("malformed-request"))

    def _count_head(self, size: int) -> None:
        """Count a part of a head, or blank lines before one, and set the deadline of the head."""
        self._head_bytes += size
        if self.transport.is_closing():
            return
        if self._head_bytes > HTTP_HEAD_BYTES_MAX:
            self._refuse(Refusal("request-head-too-large"))
        elif self._deadline is None:
            self._deadline = self._table.now() + self._table.limits.head_seconds

    def _count_body(self, size: int) -> None:
        """Count a part of a body. The number of bytes of chunked framing without content is limited."""
        self._body_wire_bytes += size
        framing = self._body_wire_bytes - 8 * self._body_bytes
        if framing > HTTP_FRAMING_BYTES_MAX + HTTP_HEAD_BYTES_MAX and not self.transport.is_closing():
            self._refuse(Refusal("malformed-request"))

    def _head_size(self) -> int:
        line = len(self.parser.get_method()) + len(self.url) + len(b"  HTTP/1.1\r\n")
        return line + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    # --- refusals -----------------------------------------------------------------------------------------

    @property
    def _connection(self) -> ClosingTransport:
        return cast("ClosingTransport", self.transport)

    def _fail(self, refusal: Refusal) -> None:
        """End parsing; called from the parser's callbacks."""
        self._refusal = refusal
        raise _HeadRefusedError

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close. While the answer to another request is being sent, only close."""
        self._deadline = None
        if self.transport.is_closing():
            return
        answering = cast("RequestResponseCycle | None", self.cycle)
        if answering is None or answering.response_complete:
            self.transport.write(self._response(refusal))
        # The end of the refused request has not been read, so the connection lingers.
        self._head_begun = True
        self.transport.close()

    def _response(self, refusal: Refusal) -> bytes:
        request_id = new_id()
        response = problem_response(refusal, request_id, self._base_url)
        status = HTTPStatus(response.status_code)
        headers = [
            *response.raw_headers,
            (b"x-request-id", request_id.encode()),
            *SECURITY_HEADERS,
            (b"connection", b"close"),
        ]
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *(b": ".join(pair) for pair in headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body)


class _HeadRefusedError(Exception):
    """Raised in a callback of the parser, to end parsing."""
