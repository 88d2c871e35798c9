"""The tables ``deliveries`` and ``delivery_attempts`` as dispatchers use them. Every method can raise
``DatabaseUnavailableError``; its outcome is then unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.database import ORDERED_INDEX_PLANS, DbConnection, read_statements
from actors.webhooks.delivery import AttemptResult, DeliveryLease
from engine.limits import DELIVERY_LEASE_SECONDS
from engine.webhooks.schedule import ATTEMPTS_MAX, OFFSETS_SECONDS

NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""Sorts before every id."""

_SQL: Final = read_statements(Path(__file__).parent / "sql")


class ClaimResult(msgspec.Struct, frozen=True):
    """The result of a claim."""

    leases: list[DeliveryLease]
    due_by_endpoint: dict[str, int]
    """Number of due deliveries that the claim took, including those that it ended without an attempt."""


Now = Callable[[], datetime | None]
"""The time on the database's clock as it is expected; ``None`` while that clock is not trusted."""


class DeliveryStore:
    """``claiming``, ``recording`` and ``sweeping`` are separate connections, so none waits for another."""

    def __init__(
        self,
        claiming: DbConnection,
        recording: DbConnection,
        sweeping: DbConnection,
        dispatcher: str,
        now: Now,
    ) -> None:
        """``dispatcher`` is the name of the claimant; deliveries due by ``now`` are claimed, and none while
        it has no time."""
        self._claiming = claiming
        self._recording = recording
        self._sweeping = sweeping
        self._dispatcher = dispatcher
        self._now = now

    async def claim(self, delivery_ids: Sequence[str], slots: Mapping[str, int]) -> ClaimResult:
        """Begin the attempts of these deliveries, and of the oldest deliveries of each endpoint in ``slots``,
        up to its number; only those that are due and unclaimed."""
        now = self._now()
        if now is None:
            return ClaimResult([], {})
        rows = await self._claiming.fetch(
            "claim_deliveries",
            list(delivery_ids),
            list(slots),
            list(slots.values()),
            self._dispatcher,
            now,
            [float(offset) for offset in OFFSETS_SECONDS],
            DELIVERY_LEASE_SECONDS,
        )
        due_by_endpoint: dict[str, int] = {}
        for row in rows:
            due_by_endpoint[row["endpoint_id"]] = due_by_endpoint.get(row["endpoint_id"], 0) + 1
        return ClaimResult([_lease(row) for row in rows if row["number"] is not None], due_by_endpoint)

    async def record(self, results: Sequence[AttemptResult]) -> None:
        """Record the results of attempts. Recording one twice has no effect."""
        await self._recording.fetch(
            "record_attempts",
            [result.lease.delivery_id for result in results],
            [result.lease.number for result in results],
            [result.lease.started_at for result in results],
            [result.latency_ms for result in results],
            [result.status_code for result in results],
            [result.error for result in results],
            [result.delivered for result in results],
            ATTEMPTS_MAX,
        )

    async def find_pending_endpoints(self, after: str, limit: int) -> list[tuple[str, bool]]:
        """Endpoints with pending deliveries, at most ``limit`` after id ``after``, and whether one of their
        deliveries is due."""
        now = self._now()
        if now is None:
            return []
        rows = await self._sweeping.fetch("find_pending_endpoints", after, limit, now)
        return [(row["endpoint_id"], row["due"]) for row in rows]

    async def read_clock(self) -> int:
        """The database's clock, in milliseconds since the epoch."""
        now_ms: int = (await self._sweeping.fetch("read_clock"))[0]["now_ms"]
        return now_ms


def delivery_connection(dsn: str, name: str) -> DbConnection:
    """A connection for the store's statements; ``name`` is its application name in the database."""
    return DbConnection(dsn, name, _SQL, session=ORDERED_INDEX_PLANS)


def _lease(row: Any) -> DeliveryLease:
    secrets = (row["secret_sealed"], row["previous_secret_sealed"])
    return DeliveryLease(
        delivery_id=row["id"],
        endpoint_id=row["endpoint_id"],
        number=row["number"],
        started_at=row["started_at"],
        url=row["url"],
        sealed_secrets=tuple(secret for secret in secrets if secret is not None),
        live=row["live"],
        event_id=row["event_id"],
        type=row["type"],
        created_at=row["created_at"],
        data=row["data"],
    )
