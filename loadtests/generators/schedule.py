"""The open loop's schedule: requests are due at fixed instants, independent of earlier answers.

Latency counts from the instant at which the request was due. A generator that counts from its own late
sending hides the waits that users of a slow system would see (coordinated omission).
"""

from __future__ import annotations


class Schedule:
    """``rate`` requests a second from ``begin`` (monotonic seconds) on."""

    def __init__(self, rate: float, begin: float) -> None:
        self._interval = 1.0 / rate
        self._begin = begin
        self._taken = 0

    @property
    def next_at(self) -> float:
        """When the next request is due."""
        return self._begin + self._taken * self._interval

    def take(self) -> float:
        """Take the next request; returns its instant."""
        at = self.next_at
        self._taken += 1
        return at

    def take_due(self, now: float) -> list[float]:
        """The instants of all requests that are due by ``now`` and have not been taken."""
        due: list[float] = []
        while self.next_at <= now:
            due.append(self.take())
        return due
