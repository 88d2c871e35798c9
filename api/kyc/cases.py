"""Stored cases, and the cardholder's ``kyc_state``, which follows them."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any, Final

import asyncpg
import msgspec

from actors.ids import new_id
from api.database.pool import Connection
from api.events.log import write
from api.http.problems import Refusal
from api.people.rows import FIND as FIND_CARDHOLDER
from api.people.rows import event_data
from engine.instant import to_datetime, to_ms
from engine.kyc.case import Case, as_of
from engine.kyc.states import cardholder_state

SELECT: Final = """
    SELECT r.id::text, r.tenant_id::text, r.live, r.cardholder_id::text, r.flow_key, r.state, r.version,
           r.awaiting, r.reason_codes, r.document_type, r.tokens, r.attempts, r.tries, r.evaluate_at,
           r.created_at, r.updated_at, r.completed_at, r.expires_at
    FROM kyc_checks r
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2::uuid AND r.live = $3"
FIND_ANY: Final = SELECT + " WHERE r.id = $1::uuid"
STATE_IS: Final = (
    "(CASE WHEN r.state IN ('pending', 'passed') AND r.expires_at <= now() THEN 'expired' ELSE r.state END)"
    " = ?"
)
"""Condition on the current state of a check: an expiry counts before its row records it."""

_INSERT: Final = """
    INSERT INTO kyc_checks (id, tenant_id, live, cardholder_id, flow_key, state, version, awaiting,
                            created_at, updated_at, expires_at)
    VALUES ($1::uuid, $2::uuid, $3, $4::uuid, $5, $6, $7, $8, $9, $9, $10)
"""
_SAVE: Final = """
    UPDATE kyc_checks
    SET state = $3, version = $4, awaiting = $5, reason_codes = $6, document_type = $7, tokens = $8,
        attempts = $9, tries = $10, evaluate_at = $11, updated_at = $12, completed_at = $13, expires_at = $14
    WHERE id = $1::uuid AND version = $2
    RETURNING true
"""
_OF_CARDHOLDER: Final = SELECT + " WHERE r.cardholder_id = $1::uuid ORDER BY r.id DESC"
# Compatible with foreign-key locks, so that concurrent creations of checks do not block each other.
LOCKED: Final = " FOR NO KEY UPDATE"
_FOLLOW: Final = "UPDATE cardholders SET kyc_state = $2, updated_at = $3 WHERE id = $1::uuid"


class Check(msgspec.Struct, frozen=True):
    """A case with its tenant, mode and cardholder."""

    case: Case
    tenant_id: str
    live: bool
    cardholder_id: str

    @property
    def id(self) -> str:
        """The check's id."""
        return self.case.id


def check_of(row: asyncpg.Record, now_ms: int) -> Check:
    """The check of a row of ``SELECT``, in its state at ``now_ms``."""
    case = Case(
        id=row["id"],
        flow=row["flow_key"],
        state=row["state"],
        version=row["version"],
        created_ms=to_ms(row["created_at"]),
        updated_ms=to_ms(row["updated_at"]),
        awaiting=tuple(row["awaiting"]),
        reason_codes=tuple(row["reason_codes"]),
        document_type=row["document_type"],
        tokens=json.loads(row["tokens"]),
        attempts=row["attempts"],
        tries=row["tries"],
        evaluate_ms=_ms(row["evaluate_at"]),
        completed_ms=_ms(row["completed_at"]),
        expires_ms=_ms(row["expires_at"]),
    )
    return Check(as_of(case, now_ms), row["tenant_id"], row["live"], row["cardholder_id"])


async def insert(connection: Connection, check: Check) -> None:
    """Insert a new check; the caller has locked the cardholder's row."""
    case = check.case
    assert case.expires_ms is not None, "new cases have an expiry"
    await connection.execute(
        _INSERT,
        case.id,
        check.tenant_id,
        check.live,
        check.cardholder_id,
        case.flow,
        case.state,
        case.version,
        list(case.awaiting),
        to_datetime(case.created_ms),
        to_datetime(case.expires_ms),
    )
    await follow(connection, check, case.created_ms)


async def save(connection: Connection, check: Check, version: int, now_ms: int) -> None:
    """Write a check that was changed from ``version``, and its cardholder's new state with the event. The
    event's time is ``now_ms``, even when the check expired earlier.

    Raises ``Refusal`` ``kyc-check-changed`` if the stored version is no longer ``version``.
    """
    case = check.case
    saved = await connection.fetchval(
        _SAVE,
        case.id,
        version,
        case.state,
        case.version,
        list(case.awaiting),
        list(case.reason_codes),
        case.document_type,
        json.dumps(case.tokens, separators=(",", ":")),
        case.attempts,
        case.tries,
        _at(case.evaluate_ms),
        to_datetime(case.updated_ms),
        _at(case.completed_ms),
        _at(case.expires_ms),
    )
    if not saved:
        raise Refusal("kyc-check-changed")
    await follow(connection, check, now_ms)


async def follow(connection: Connection, check: Check, now_ms: int) -> None:
    """Update the cardholder's ``kyc_state`` from their checks; a change publishes an event.

    The cardholder's row is locked first, so the later of two concurrent changes sees the earlier one.
    """
    party = (check.cardholder_id, check.tenant_id, check.live)
    holder: Any = await connection.fetchrow(FIND_CARDHOLDER + LOCKED, *party)
    rows = await connection.fetch(_OF_CARDHOLDER, check.cardholder_id)
    state = cardholder_state([check_of(row, now_ms).case.state for row in rows])
    if state == holder["kyc_state"]:
        return
    # updated_at never goes back.
    at = max(to_datetime(now_ms), holder["updated_at"])
    await connection.execute(_FOLLOW, check.cardholder_id, state, at)
    changed: Any = await connection.fetchrow(FIND_CARDHOLDER, *party)
    data = event_data(changed) | {"changed": ["kyc_state"]}
    await write(connection, new_id(), check, "cardholder.updated", data, to_ms(at))


def _ms(at: datetime | None) -> int | None:
    return None if at is None else to_ms(at)


def _at(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else to_datetime(at_ms)
