"""Cardholders: the statements that read them, and their representation in answers and in events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import asyncpg

from api.database.object_metadata import COLUMN, shown_metadata
from api.http.fields import shown_instant
from api.people.personal_data import FIELDS, People, selected

SELECT: Final = f"""
    SELECT r.id::text, r.tenant_id::text, r.programme_id::text, r.external_ref, r.status, r.kyc_state,
           r.created_at, r.updated_at, r.erased_at, {COLUMN}, {selected("r")}
    FROM cardholders r
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"


KIND: Final = "cardholder"
PERSONAL: Final = frozenset({*FIELDS, "external_ref", "metadata"})
"""Members that the audit log masks. The issuer's own records may identify a person, too."""


def show(row: Mapping[str, Any] | asyncpg.Record, people: People) -> dict[str, Any]:
    """The public representation of a row of ``FIND``."""
    erased = row["erased_at"]
    return {
        "id": row["id"],
        "programme_id": row["programme_id"],
        **people.of(row),
        "external_ref": row["external_ref"],
        "status": row["status"],
        "kyc_state": row["kyc_state"],
        "created_at": shown_instant(row["created_at"]),
        "updated_at": shown_instant(row["updated_at"]),
        "erased_at": shown_instant(erased) if erased else None,
        "metadata": shown_metadata(row),
    }


def event_data(row: asyncpg.Record) -> dict[str, Any]:
    """The data of events about the cardholder: state and ids, no personal data."""
    return {
        "cardholder_id": row["id"],
        "programme_id": row["programme_id"],
        "status": row["status"],
        "kyc_state": row["kyc_state"],
        "occurred_at": shown_instant(row["updated_at"]),
    }
