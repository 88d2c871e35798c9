"""From a queued payload to the handler of its message class.

A payload that cannot be decoded is answered with DE39 = 30 if its header is readable. The third one costs the
connection (``ops/docs/WIRE.md``, transport).
"""

from __future__ import annotations

import structlog

from actors.network.connection import EdgeConnection
from actors.network.edge_counts import EdgeCounts
from actors.network.links.guard import Guard
from actors.network.links.management import NetworkManagement
from actors.network.respondent import Respondent
from engine.iso8583.codec import DecodeError, decode
from engine.iso8583.content import FUNCTIONS
from engine.iso8583.framing import BadFrame
from engine.iso8583.message import Message, is_request
from engine.iso8583.respond import (
    DEADLINE_EXCEEDED,
    NOT_SUPPORTED,
    SYSTEM_ERROR,
    malformed,
    refusal,
)
from engine.limits import MALFORMED_FRAMES_MAX

_log = structlog.get_logger(__name__)
_NETWORK_MANAGEMENT = "080"
_MANAGEMENT_ANSWER = "0810"


class Dispatcher:
    """Decodes messages and calls ``respondent`` for financial ones."""

    def __init__(self, respondent: Respondent, counts: EdgeCounts, management: NetworkManagement) -> None:
        self.guard: Guard | None = None
        """Refuses messages before their handlers get them; ``None`` while it would refuse none."""
        self._counts = counts
        self._management = management
        self._handlers = dict.fromkeys(FUNCTIONS, respondent.respond) | {_NETWORK_MANAGEMENT: self._manage}

    def dispatch(self, connection: EdgeConnection, payload: bytes, arrived: float) -> None:
        """Handle a payload that arrived at ``arrived`` in the loop's time and has left the queue."""
        connection.request_finished()
        if connection.malformed_frames >= MALFORMED_FRAMES_MAX:
            return
        try:
            message = decode(payload)
        except DecodeError as error:
            self._reject(connection, error.read)
            return
        if not is_request(message.mti):
            if message.mti != _MANAGEMENT_ANSWER or not self._management.answered(connection, message):
                self._reject(connection, None)
            return
        connection.request_recognized()
        self._counts.requests += 1
        if self.guard is not None:
            admitted = self.guard.admit(connection, message, payload)
            if isinstance(admitted, str):
                connection.answer(refusal(message, admitted))
                return
            message = admitted
        handler = self._handlers.get(message.mti[:3])
        if handler is None:
            self._counts.unsupported += 1
            connection.answer(refusal(message, NOT_SUPPORTED))
            return
        try:
            handler(connection, message, arrived)
        except Exception as failure:  # noqa: BLE001 - a fault in one message must not cost the connection
            self._counts.faults += 1
            _log.error("edge_fault", mti=message.mti, error=type(failure).__name__)
            out_of_memory = isinstance(failure, MemoryError)
            connection.answer(refusal(message, DEADLINE_EXCEEDED if out_of_memory else SYSTEM_ERROR))

    def reject_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """Answer a frame of a refused length, as far as its head can be decoded."""
        try:
            read: Message | None = decode(bad.head)
        except DecodeError as error:
            read = error.read
        self._reject(connection, read)

    def _reject(self, connection: EdgeConnection, read: Message | None) -> None:
        """Count a malformed frame of ``connection``. ``read``: the fields that could be decoded."""
        connection.malformed_frames += 1
        self._counts.malformed += 1
        response = malformed(read)
        if response is not None:
            connection.answer(response)
        if connection.malformed_frames >= MALFORMED_FRAMES_MAX:
            connection.close()

    def _manage(self, connection: EdgeConnection, message: Message, _arrived: float) -> None:
        connection.answer(self._management.answer(connection, message))
