"""The rows of external references and metadata.

The API writes them; owners of cards and programmes do not know them. A change merges with the stored pairs,
so two systems of an issuer can each keep their own keys. Values are stored unencrypted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from api.access.tokens import Caller
from api.database.object_metadata import About, about_of, shown_metadata
from api.database.pool import Connection
from api.events.log import Party
from api.http.problems import FieldError, Refusal
from api.operations.pagination import Bounds, Candidates
from engine.limits import METADATA_KEYS_MAX

Kind = Literal["programme", "card_product", "cardholder", "card", "transaction"]

_INSERT: Final = """
    INSERT INTO object_metadata (object_id, tenant_id, live, kind, external_ref, metadata)
    VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6) ON CONFLICT (object_id) DO NOTHING
"""
_LOCK: Final = "SELECT external_ref, metadata FROM object_metadata WHERE object_id = $1::uuid FOR UPDATE"
_REFERENCED: Final = """
    SELECT object_id::text AS id FROM object_metadata
    WHERE tenant_id = $1 AND live = $2 AND external_ref = $3 AND kind = $4 AND object_id < $5::uuid
    ORDER BY object_id DESC LIMIT $6
"""
_READ: Final = "SELECT metadata FROM object_metadata WHERE object_id = $1::uuid"
_UPDATE: Final = "UPDATE object_metadata SET external_ref = $2, metadata = $3 WHERE object_id = $1::uuid"
_DELETE: Final = "DELETE FROM object_metadata WHERE object_id = $1::uuid"


async def insert(connection: Connection, party: Party, kind: Kind, object_id: str, about: About) -> None:
    """Store the values of a new object, in the transaction that creates it."""
    if not about.empty:
        await _insert(connection, party, kind, object_id, about)


async def change(
    connection: Connection, caller: Caller, kind: Kind, object_id: str, given: Mapping[str, Any]
) -> tuple[About, About]:
    """Apply the members ``external_ref`` and ``metadata`` of ``given``, if it has them. Returns the values
    before and after. Locks them until the transaction ends.

    Raises ``Refusal`` 400 when the object would have too many pairs.
    """
    await _insert(connection, caller, kind, object_id, About())
    row = await connection.fetchrow(_LOCK, object_id)
    before = about_of(row)
    after = About(given.get("external_ref", before.external_ref), _merged(before.metadata, given))
    if after.empty:
        await connection.execute(_DELETE, object_id)
    elif after != before:
        await connection.execute(_UPDATE, object_id, after.external_ref, _text(after.metadata))
    return before, after


async def require_room(connection: Connection, object_id: str, given: Mapping[str, Any]) -> None:
    """Raise ``Refusal`` 400 when ``change`` would, before other parts of a request take effect."""
    if "metadata" in given:
        stored = await connection.fetchrow(_READ, object_id)
        _merged({} if stored is None else shown_metadata(stored), given)


def referenced(kind: Kind, external_ref: str) -> Candidates:
    """The ids of the objects with ``external_ref``, for ``page``."""

    async def candidates(connection: Connection, caller: Caller, bounds: Bounds, limit: int) -> list[str]:
        rows = await connection.fetch(
            _REFERENCED, caller.tenant_id, caller.live, external_ref, kind, bounds.before, limit
        )
        return [row["id"] for row in rows]

    return candidates


async def erase(connection: Connection, object_id: str) -> None:
    """Delete the values of an object."""
    await connection.execute(_DELETE, object_id)


def _merged(stored: dict[str, str], given: Mapping[str, Any]) -> dict[str, str]:
    if "metadata" not in given:
        return stored
    if given["metadata"] is None:
        return {}
    pairs = stored | given["metadata"]
    merged = {key: value for key, value in pairs.items() if value is not None}
    if len(merged) > METADATA_KEYS_MAX:
        detail = f"The object would have more than {METADATA_KEYS_MAX} keys."
        raise Refusal("validation-failed", errors=[FieldError("/metadata", "length", detail)])
    return merged


async def _insert(connection: Connection, party: Party, kind: Kind, object_id: str, about: About) -> None:
    await connection.execute(
        _INSERT, object_id, party.tenant_id, party.live, kind, about.external_ref, _text(about.metadata)
    )


def _text(metadata: dict[str, str]) -> str:
    return msgspec.json.encode(metadata).decode()
