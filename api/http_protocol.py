"""HTTP before there is a request: what cannot be parsed, never ends or is too long is refused with a problem
body too.

uvicorn answers broken requests in plain text, waits for the end of a request's head for ever, and takes
heads of any size; this protocol closes the three gaps and leaves everything else to it.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, Final, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from actors.ids import new_id
from api.json_body import ARRIVED
from api.problems import Refusal, problem_response

HEAD_SECONDS: Final = 10.0
"""From the connection, or a request's first byte, to the end of the request's head."""
HEAD_BYTES_MAX: Final = 32 * 1024


def protocol_with(base_url: str | None) -> type[HttpToolsProtocol]:
    """The protocol for ``uvicorn.Config(http=...)``; problem types point to ``base_url`` if there is one."""

    class Protocol(ProblemProtocol):
        """Bound to one installation's documentation."""

        problem_base_url = base_url

    return Protocol


class ProblemProtocol(HttpToolsProtocol):
    """One connection."""

    problem_base_url: str | None = None

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._in_head = True
        self._head_deadline: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._limit_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._head_complete()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if not self._in_head:
            self._in_head = True
            self._head_bytes = 0

    def on_headers_complete(self) -> None:
        self._head_complete()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.scope[ARRIVED] = True  # type: ignore[typeddict-unknown-key]
        super().on_message_complete()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # Most heads come in one piece: they need neither a limit nor a clock.
        if self._in_head:
            self._head_bytes += len(data)
            self._limit_head()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn's text, which ours replaces
        self._refuse(Refusal("malformed-request"))

    def _limit_head(self) -> None:
        if self._head_bytes > HEAD_BYTES_MAX:
            self._refuse(Refusal("request-head-too-large"))
        elif self._head_deadline is None:
            self._head_deadline = self.loop.call_later(
                HEAD_SECONDS,
                self._refuse,
                Refusal("request-timeout", "The head of the request took too long."),
            )

    def _head_complete(self) -> None:
        self._in_head = False
        if self._head_deadline is not None:
            self._head_deadline.cancel()
            self._head_deadline = None

    def _refuse(self, refusal: Refusal) -> None:
        """Answer and close; in the middle of another request's answer, only close."""
        self._head_complete()
        if self.transport.is_closing():
            return
        answering = cast("RequestResponseCycle | None", self.cycle)
        if answering is None or answering.response_complete:
            self.transport.write(self._response(refusal))
        self.transport.close()

    def _response(self, refusal: Refusal) -> bytes:
        request_id = new_id()
        response = problem_response(refusal, request_id, self.problem_base_url)
        status = HTTPStatus(response.status_code)
        headers = [*response.raw_headers, (b"x-request-id", request_id.encode()), (b"connection", b"close")]
        lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode(), *(b": ".join(pair) for pair in headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + bytes(response.body)
