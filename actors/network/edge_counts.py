"""Counters of one edge."""

from __future__ import annotations

import msgspec


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
