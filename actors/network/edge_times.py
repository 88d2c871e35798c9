"""The time limits of the connections of one link, in seconds."""

from __future__ import annotations

from typing import Final

import msgspec

from engine.limits import (
    EDGE_IDLE_SECONDS,
    EDGE_SILENT_SECONDS,
    FRAME_RECEIPT_SECONDS,
    LINK_DRAIN_SECONDS,
    LINK_REPLY_SECONDS,
    TLS_RELOAD_SECONDS,
)


class EdgeTimes(msgspec.Struct, frozen=True, kw_only=True):
    """What the sweep waits for, and how long."""

    receipt_seconds: float = FRAME_RECEIPT_SECONDS
    """For one frame, and for the peer to read its answers."""
    idle_seconds: float = EDGE_IDLE_SECONDS
    """``EdgeConnection.is_idle``."""
    silent_seconds: float = EDGE_SILENT_SECONDS
    """``EdgeConnection.is_idle``."""
    reply_seconds: float = LINK_REPLY_SECONDS
    """For the answer to an 0800."""
    drain_seconds: float = LINK_DRAIN_SECONDS
    """After a sign-off."""
    reload_seconds: float = TLS_RELOAD_SECONDS
    """Between readings of the file of keys."""

    @property
    def sweep_seconds(self) -> float:
        """Between two sweeps: at most a second, and short beside every limit of a connection."""
        shortest = min(self.receipt_seconds, self.idle_seconds, self.silent_seconds, self.reply_seconds)
        return min(1.0, shortest / 4)


DEFAULT_TIMES: Final = EdgeTimes()
