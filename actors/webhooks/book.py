"""The tables ``deliveries`` and ``delivery_attempts`` as dispatchers use them. Errors of every method:
``DatabaseUnavailableError``, after which nobody knows whether it happened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from actors.database import Lane, read_statements
from actors.webhooks.delivery import Claim, Ending
from engine.limits import CLAIM_SECONDS
from engine.webhooks.schedule import ATTEMPTS_MAX, OFFSETS_SECONDS

NO_ID: Final = "00000000-0000-0000-0000-000000000000"
"""Lower than every id."""

_SQL: Final = read_statements(Path(__file__).parent / "sql")
_SESSION: Final[Mapping[str, str]] = {
    # Plans must stay walks over indexes, however small the tables were when they were first planned.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "enable_bitmapscan": "off",
    "plan_cache_mode": "force_generic_plan",
    # A backend whose client has given it up must let go of its locks.
    "statement_timeout": "5s",
}


class Claimed(msgspec.Struct, frozen=True):
    """What a claim has found."""

    claims: list[Claim]
    found: dict[str, int]
    """How many due deliveries of each endpoint there were, those that ended at once among them."""


Instant = Callable[[], datetime | None]


def by_the_database() -> None:
    """The database's own clock says what is due."""


class DeliveryBook:
    """``claiming``, ``recording`` and ``looking`` are connections of their own: none waits for another."""

    def __init__(
        self, claiming: Lane, recording: Lane, looking: Lane, dispatcher: str, now: Instant = by_the_database
    ) -> None:
        """``dispatcher`` names who claims; ``now`` is the instant by which deliveries are due."""
        self._claiming = claiming
        self._recording = recording
        self._looking = looking
        self._dispatcher = dispatcher
        self._now = now

    async def claim(self, delivery_ids: Sequence[str], rooms: Mapping[str, int]) -> Claimed:
        """Begin the attempts of these deliveries, and of as many of each endpoint in ``rooms`` as it says,
        the oldest first; those of them that are due and nobody else's."""
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
        """Write how attempts ended. Recording one twice is harmless."""
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
        """Endpoints with pending deliveries, at most ``limit`` of those that follow id ``after``, and
        whether one of theirs is due."""
        rows = await self._looking.fetch("find_waiting", after, limit, self._now())
        return [(row["endpoint_id"], row["due"]) for row in rows]


def book_lane(dsn: str, name: str) -> Lane:
    """A connection for the book's statements; ``name`` is shown by the database."""
    return Lane(dsn, name, _SQL, session=_SESSION)


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
