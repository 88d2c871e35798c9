"""From a queued payload to the handler of its message class.

A payload that cannot be decoded is answered with DE39 = 30 if its header is readable. The third one costs the
connection (``ops/docs/WIRE.md``, transport).
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from actors.network.connection import EdgeConnection
from actors.network.edge_counts import EdgeCounts
from actors.network.links.guard import Guard
from actors.network.links.management import NetworkManagement
from actors.network.respondent import Respondent
from engine.iso8583.codec import DecodeError
from engine.iso8583.content_reader import FUNCTIONS
from engine.iso8583.elements import ElementError
from engine.iso8583.framing import BadFrame
from engine.iso8583.message import Message
from engine.iso8583.message_types import Function
from engine.iso8583.respond import (
    DEADLINE_EXCEEDED,
    NOT_SUPPORTED,
    SYSTEM_ERROR,
    malformed,
    refusal,
)
from engine.limits import MALFORMED_FRAMES_MAX

Handler = Callable[[EdgeConnection, Message, float], None]

_log = structlog.get_logger(__name__)
_MANAGEMENT_ANSWER = "0810"


class Dispatcher:
    """Decodes messages and calls ``respondent`` for financial ones."""

    def __init__(self, respondent: Respondent, counts: EdgeCounts, management: NetworkManagement) -> None:
        self.guard: Guard | None = None
        """Refuses messages before their handlers get them; ``None`` while it would refuse none."""
        self._counts = counts
        self._management = management
        self._handlers: dict[Function | None, Handler] = dict.fromkeys(FUNCTIONS, respondent.respond)
        self._handlers["network_management"] = self._manage

    def dispatch(self, connection: EdgeConnection, payload: bytes, arrived: float) -> None:
        """Handle a payload that arrived at ``arrived`` in the loop's time and has left the queue."""
        connection.request_finished()
        if connection.malformed_frames >= MALFORMED_FRAMES_MAX:
            return
        try:
            message = connection.profile.decode(payload)
        except DecodeError as error:
            self._reject(connection, error.read)
            return
        profile = connection.profile
        function = profile.function(message.mti)
        if function is None and not profile.messages.is_request(message.mti):
            if not self._is_awaited(connection, message):
                self._reject(connection, None)
            return
        connection.request_recognized()
        self._counts.requests += 1
        if self.guard is not None:
            admitted = self.guard.admit(connection, message, payload)
            if isinstance(admitted, str):
                connection.answer(refusal(message, admitted, profile))
                return
            message = admitted
        handler = self._handlers.get(function)
        if handler is None:
            self._counts.unsupported += 1
            connection.answer(refusal(message, NOT_SUPPORTED, connection.profile))
            return
        try:
            handler(connection, message, arrived)
        except Exception as failure:  # noqa: BLE001 - a fault in one message must not cost the connection
            self._counts.faults += 1
            _log.error("edge_fault", mti=message.mti, error=type(failure).__name__)
            out_of_memory = isinstance(failure, MemoryError)
            response_code = DEADLINE_EXCEEDED if out_of_memory else SYSTEM_ERROR
            connection.answer(refusal(message, response_code, connection.profile))

    def reject_bad_frame(self, connection: EdgeConnection, bad: BadFrame) -> None:
        """Answer a frame of a refused length, as far as its head can be decoded. A broken stream costs the
        connection at once."""
        try:
            read: Message | None = connection.profile.decode(bad.head)
        except DecodeError as error:
            read = error.read
        self._reject(connection, read)
        if bad.broken:
            connection.close()

    def _reject(self, connection: EdgeConnection, read: Message | None) -> None:
        """Count a malformed frame of ``connection``. ``read``: the fields that could be decoded."""
        connection.malformed_frames += 1
        self._counts.malformed += 1
        response = malformed(read, connection.profile)
        if response is not None:
            connection.answer(response)
        if connection.malformed_frames >= MALFORMED_FRAMES_MAX:
            connection.close()

    def _is_awaited(self, connection: EdgeConnection, message: Message) -> bool:
        """Whether ``message`` answers an 0800 of this side."""
        profile = connection.profile
        if profile.messages.canonical_answer(message.mti) != _MANAGEMENT_ANSWER:
            return False
        try:
            return self._management.answered(connection, profile.read_answer(message))
        except ElementError:
            return False

    def _manage(self, connection: EdgeConnection, message: Message, _arrived: float) -> None:
        connection.answer(self._management.answer(connection, message))
