"""The answer of an outgoing call, or the reason why there is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

REASONS: Final = ("target_refused", "resolution", "connect", "tls", "timeout", "disconnected", "protocol")
"""Why a call has no answer: the target is refused; its name has no address; no connection; an untrusted
certificate, or no TLS; too slow; disconnected before the end of the answer; an answer that is not HTTP."""


class EgressError(Exception):
    """A call has no answer. ``reason`` is one of ``REASONS``; the error holds no bytes of the receiver."""

    def __init__(self, reason: str) -> None:
        assert reason in REASONS
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Received:
    """An answer: its status, the beginning of its body, and whether the body was longer."""

    status: int
    body: bytes
    truncated: bool
