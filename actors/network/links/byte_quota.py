"""The quota of received bytes of one link: a token bucket of one second."""

from __future__ import annotations

from collections.abc import Callable


class ByteQuota:
    """``now``: a monotonic clock in seconds."""

    def __init__(self, bytes_per_second: int, now: Callable[[], float]) -> None:
        self._per_second = bytes_per_second
        self._now = now
        self._left = float(bytes_per_second)
        self._at = now()

    def take(self, count: int) -> float:
        """Count received bytes. Returns the seconds for which their connection must not be read."""
        now = self._now()
        self._left = min(float(self._per_second), self._left + (now - self._at) * self._per_second)
        self._at = now
        self._left -= count
        return 0.0 if self._left >= 0 else -self._left / self._per_second
