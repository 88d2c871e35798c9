"""Counters of one link at one edge."""

from __future__ import annotations

from typing import Final

import msgspec

REFUSALS: Final = (
    *("address", "client_name", "closed", "iin", "in_flight", "institution", "mac", "message_class"),
    *("sign_on", "signed_off"),
)
"""Reasons for which a link refuses a message or a connection."""


class EdgeCounts(msgspec.Struct):
    """Totals since the edge started."""

    connections: int = 0
    refused: int = 0
    """Connections closed at the limits of open connections: new ones, or idle ones in their favour."""
    cut: int = 0
    """Connections closed because the peer sent a frame, or read its answers, too slowly."""
    idle: int = 0
    """Connections closed because no frame arrived for too long."""
    requests: int = 0
    malformed: int = 0
    unsupported: int = 0
    faults: int = 0
    """Requests that raised an exception in the edge."""
    shed: int = 0
    """Authorizations refused at arrival, because their answers would leave too late."""
    bytes_received: int = 0
    rerouted: int = 0
    """Answers sent on another connection of the link, because their own had ended."""
    answers: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    """Answers by MTI and DE39."""
    screened: dict[str, int] = msgspec.field(default_factory=dict)
    """Messages and connections that the link may not send or open, by reason."""
    last_error: str | None = None
    last_error_ms: int = 0
    """Unix time of ``last_error``, in milliseconds."""

    def count_answer(self, mti: str, response_code: str) -> None:
        """Count an answer."""
        kind = (mti, response_code)
        self.answers[kind] = self.answers.get(kind, 0) + 1

    def count_screened(self, reason: str) -> None:
        """Count a refused message or connection."""
        self.screened[reason] = self.screened.get(reason, 0) + 1

    def note_error(self, error: str, now_ms: int) -> None:
        """Remember the latest failure of the link."""
        self.last_error, self.last_error_ms = error, now_ms
