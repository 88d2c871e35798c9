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
from actors.webhooks.delivery import Claim, Ending
from engine.limits import CLAIM_SECONDS
from engine.webhooks.schedule import ATTEMPTS_MAX, OFFSETS_SECONDS

NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""Lower than every id."""

_SQL: Final = read_statements(Path(__file__).parent / "sql")


class Claimed(msgspec.Struct, frozen=True):
    """The result of a claim."""

    claims: list[Claim]
    found: dict[str, int]
    """Number of due deliveries by endpoint, including those that the claim ended at once."""


Instant = Callable[[], datetime | None]


def by_the_database() -> None:
    """Deliveries are due by the database's clock."""


class DeliveryBook:
    """``claiming``, ``recording`` and ``looking`` are separate connections, so none waits for another."""

    def __init__(
        self,
        claiming: DbConnection,
        recording: DbConnection,
        looking: DbConnection,
        dispatcher: str,
        now: Instant = by_the_database,
    ) -> None:
        """``dispatcher`` is the name of the claimant; deliveries due by ``now`` are claimed."""
        self._claiming = claiming
        self._recording = recording
        self._looking = looking
        self._dispatcher = dispatcher
        self._now = now

    async def claim(self, delivery_ids: Sequence[str], rooms: Mapping[str, int]) -> Claimed:
        """Begin the attempts of these deliveries, and of the oldest deliveries of each endpoint in ``rooms``,
        up to its number; only those that are due and unclaimed."""
        rows = await self._claiming.fetch(
            "claim_deliveries",
            list(delivery_ids),
            list(rooms),
            list(rooms.values()),
            self._dispatcher,
            self._now(),
            [float(offset) for offset in OFFSETS_SECONDS],
            CLAIM_SECONDS,
        )
        found: dict[str, int] = {}
        for row in rows:
            found[row["endpoint_id"]] = found.get(row["endpoint_id"], 0) + 1
        return Claimed([_claim(row) for row in rows if row["number"] is not None], found)

    async def record(self, endings: Sequence[Ending]) -> None:
        """Record the endings of attempts. Recording one twice has no effect."""
        await self._recording.fetch(
            "record_attempts",
            [ending.claim.delivery_id for ending in endings],
            [ending.claim.number for ending in endings],
            [ending.claim.started_at for ending in endings],
            [ending.latency_ms for ending in endings],
            [ending.status_code for ending in endings],
            [ending.error for ending in endings],
            [ending.delivered for ending in endings],
            ATTEMPTS_MAX,
        )

    async def waiting(self, after: str, limit: int) -> list[tuple[str, bool]]:
        """Endpoints with pending deliveries, at most ``limit`` after id ``after``, and whether one of their
        deliveries is due."""
        rows = await self._looking.fetch("find_waiting", after, limit, self._now())
        return [(row["endpoint_id"], row["due"]) for row in rows]


def book_lane(dsn: str, name: str) -> DbConnection:
    """A connection for the book's statements; ``name`` is shown by the database."""
    return DbConnection(dsn, name, _SQL, session=ORDERED_INDEX_PLANS)


def _claim(row: Any) -> Claim:
    secrets = (row["secret_sealed"], row["previous_secret_sealed"])
    return Claim(
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
