"""A delivery on its way: what was claimed, and what came of it. It moves through types, not flags.

    row, due  --claim-->  Claim  --send-->  Ending  --record-->  row

How attempts are counted: beginning an attempt (the claim) counts it and writes when the next one is due, in
one transaction and before a byte leaves. So never more than six attempts leave, whoever is killed and
whenever, and each at its place in the schedule. An attempt whose ending nobody could record counts as a
failed one (``lost``); the receiver may have got it, and the next attempt, at its place, may be a duplicate.
The price: what a killed dispatcher had begun waits for that place, a minute for the first attempt.
After a standstill longer than the schedule's steps, overdue attempts follow each other at ``CLAIM_SECONDS``.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from actors.egress.client import Received

CONNECTION_FAILED: Final = "connection_failed"
"""The error of an attempt whose connection was refused, timed out, had no trusted TLS, or was cut."""
LOST: Final = "lost"
INTERRUPTED: Final = "interrupted"
UNREADABLE: Final = "secret_unreadable"
"""Errors of an attempt beside the reasons of ``EgressError``: nobody knows how it ended; the dispatcher was
stopped meanwhile; the endpoint's signing secret cannot be opened."""


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt that has begun: it is counted, and it is to leave now."""

    delivery_id: str
    endpoint_id: str
    number: int
    """Of the attempt, from 1."""
    started_at: datetime
    """By the clock that the schedule goes by."""
    url: str
    sealed_secrets: tuple[bytes, ...]
    """The endpoint's active secrets, the current one first."""
    live: bool
    """The mode of the endpoint."""
    event_id: str
    type: str
    created_at: datetime
    data: str


class Ending(msgspec.Struct, frozen=True):
    """How an attempt ended: with an answer's status, or with an error for want of a usable one."""

    claim: Claim
    latency_ms: int
    status_code: int | None = None
    error: str | None = None

    @property
    def delivered(self) -> bool:
        """Whether the receiver has taken the event: any 2xx. A redirect is not followed, and is a failure
        (spec 6.1)."""
        return self.status_code is not None and 200 <= self.status_code < 300

    @property
    def kind(self) -> str:
        """A word of a closed list, for counting."""
        if self.status_code is None:
            return self.error or LOST
        return f"status_{self.status_code // 100}xx" if 100 <= self.status_code < 600 else "status_other"


def answered(claim: Claim, latency_ms: int, received: Received) -> Ending:
    """The ending of an attempt with an answer."""
    return Ending(claim, latency_ms, status_code=received.status)


def unanswered(claim: Claim, latency_ms: int, error: str) -> Ending:
    """The ending of an attempt without one."""
    return Ending(claim, latency_ms, error=error)
