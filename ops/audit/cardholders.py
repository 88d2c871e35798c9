"""Promises of cardholders' personal data: sealed under an existing key, or erased."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import asyncpg

from actors.vault import Vault, VaultError
from api.people.personal_data import People, email_digest, selected

if TYPE_CHECKING:
    from ops.audit import Connection

FETCH: Final = 1_000

# Until the columns in clear are dropped, rows of the previous release have no data key.
CARDHOLDERS: Final[dict[str, str]] = {
    "a cardholder has a data key, or is erased with the custody of their checks": """
        SELECT h.id, CASE WHEN h.erased_at IS NULL
            THEN h.data_key IS NOT NULL OR to_jsonb(h) ->> 'given_name' <> ''
            ELSE h.data_key IS NULL AND h.email_digest IS NULL AND h.status = 'closed' AND NOT EXISTS (
                SELECT FROM kyc_checks k JOIN kyc_data_keys d ON d.check_id = k.id
                WHERE k.cardholder_id = h.id AND d.wrapped IS NOT NULL) END
        FROM cardholders h""",
}
READABLE: Final = "cardholders' personal data can be opened with the master keys"

_ROWS: Final = f"""
    SELECT r.id::text, r.tenant_id::text, r.live, r.email_digest, {selected("r")}
    FROM cardholders r WHERE r.erased_at IS NULL
"""


async def unreadable(connection: Connection, vault: Vault) -> tuple[int, list[str]]:
    """The number of cardholders that are not erased, and the ids of those with a value that cannot be opened
    or with the hash of another e-mail address."""
    subjects, broken = 0, []
    async for row in connection.cursor(_ROWS, prefetch=FETCH):
        subjects += 1
        if not _is_readable(row, vault):
            broken.append(row["id"])
    return subjects, broken


def _is_readable(row: asyncpg.Record, vault: Vault) -> bool:
    try:
        email = People(vault).of(row)["email"]
    except VaultError:
        return False
    in_clear = row["data_key"] is None
    digest = None if in_clear else email_digest(vault, row["tenant_id"], row["live"], email)
    return bool(digest == row["email_digest"])
