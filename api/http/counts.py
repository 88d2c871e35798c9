"""Counters of one API server: requests and latencies by operation."""

from __future__ import annotations

from typing import Final

from actors.metrics import Figures, Histogram, Labels

CLIENT_GONE: Final = "client_gone"
"""Status label of requests whose client disconnected before the response."""


class RestCounts:
    """Since the server's start. Operations are a closed list, and so are statuses."""

    def __init__(self) -> None:
        self._requests: dict[Labels, float] = {}
        self._seconds: dict[Labels, Histogram] = {}

    def answered(self, operation: str, status: str, seconds: float) -> None:
        """Count one finished request."""
        key = (operation, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        histogram = self._seconds.get((operation,))
        if histogram is None:
            histogram = self._seconds[(operation,)] = Histogram()
        histogram.observe(seconds)

    def figures(self) -> Figures:
        """By metric name."""
        return {
            "stanchion_rest_requests": dict(self._requests),
            "stanchion_rest_seconds": {key: each.figure() for key, each in self._seconds.items()},
        }
