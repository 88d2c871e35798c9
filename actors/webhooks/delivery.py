"""A delivery in progress: its lease and the result of its attempt. Its state is a type, not a flag.

    row, due  --claim-->  DeliveryLease  --send-->  AttemptResult  --record-->  row

The claim counts the attempt and writes the time of the next one, in one transaction and before a byte leaves.
So at most six attempts leave, each at its time in the schedule, even when processes are killed. An attempt
without a recorded result counts as failed (``lost``); the receiver may have got it, so the next attempt may
be a duplicate. A delivery whose dispatcher was killed waits for the next time in the schedule: one minute
after a first attempt. After a longer outage, the overdue attempts of a delivery start
``DELIVERY_LEASE_SECONDS`` apart.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from actors.egress.answers import Received

CONNECTION_FAILED: Final = "connection_failed"
"""The error of an attempt whose connection was refused, timed out, had no trusted TLS, or was cut."""
LOST: Final = "lost"
INTERRUPTED: Final = "interrupted"
UNREADABLE: Final = "secret_unreadable"
"""Errors of an attempt besides the reasons of ``EgressError``: the result is unknown; the dispatcher was
stopped during the attempt; the endpoint's signing secret cannot be opened."""


class DeliveryLease(msgspec.Struct, frozen=True, kw_only=True):
    """The right to make one attempt, which is already counted and must be sent now."""

    delivery_id: str
    endpoint_id: str
    number: int
    """Number of the attempt, from 1."""
    started_at: datetime
    """Start of the attempt by the database's clock."""
    url: str
    sealed_secrets: tuple[bytes, ...]
    """The endpoint's active secrets, the current one first."""
    live: bool
    """The mode of the endpoint."""
    event_id: str
    type: str
    created_at: datetime
    data: str


class AttemptResult(msgspec.Struct, frozen=True):
    """The result of an attempt: the status of the answer, or an error if there was none."""

    lease: DeliveryLease
    latency_ms: int
    status_code: int | None = None
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver accepted the event: any 2xx. Redirects are not followed and count as
        failures."""
        return self.status_code is not None and 200 <= self.status_code < 300

    @property
    def kind(self) -> str:
        """The value of the metric's label ``ending``, from a closed list."""
        if self.status_code is None:
            return self.error or LOST
        return f"status_{self.status_code // 100}xx" if 100 <= self.status_code < 600 else "status_other"


def answered(lease: DeliveryLease, latency_ms: int, received: Received) -> AttemptResult:
    """The result of an attempt with an answer."""
    return AttemptResult(lease, latency_ms, status_code=received.status)


def unanswered(lease: DeliveryLease, latency_ms: int, error: str) -> AttemptResult:
    """The result of an attempt without an answer."""
    return AttemptResult(lease, latency_ms, error=error)
