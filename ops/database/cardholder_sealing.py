"""Seals the personal data of cardholders that an earlier release stored in clear.

The migration runner does this before it drops these columns. It walks the table by id, with one transaction
per batch, and can be interrupted and repeated: sealed rows are left unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import asyncpg

from actors.vault import Vault
from api.people.personal_data import COLUMNS, People, seal_person, selected
from ops.database.key_check import check_master_key
from ops.database.operator_connection import connect_operator

BATCH: Final = 500
FIRST: Final = "00000000-0000-0000-0000-000000000000"

_CLEAR_COLUMNS: Final = """
    SELECT EXISTS (SELECT FROM pg_attribute
                   WHERE attrelid = to_regclass('cardholders')
                   AND attname = 'given_name' AND NOT attisdropped)
"""
_REST: Final = "SELECT EXISTS (SELECT FROM cardholders WHERE given_name <> '')"
_BATCH: Final = f"""
    SELECT r.id::text, r.tenant_id::text, r.live, {selected("r")} FROM cardholders r
    WHERE r.id > $1::uuid AND r.given_name <> '' ORDER BY r.id LIMIT $2 FOR UPDATE
"""
_BLANK: Final = (
    "given_name = '', family_name = '', email = '', phone = NULL, date_of_birth = NULL, address = NULL"
)
_SEAL: Final = f"""
    UPDATE cardholders
    SET {_BLANK}, {", ".join(f"{name} = ${2 + i}" for i, name in enumerate(COLUMNS))}
    WHERE id = $1::uuid
"""
_BLANK_ROWS: Final = f"UPDATE cardholders SET {_BLANK} WHERE id = ANY ($1::uuid[])"


async def seal_cardholders(dsn: str, vault: Callable[[], Vault]) -> int:
    """Seal every cardholder of the database at ``dsn`` and blank the columns in clear; returns the number of
    rows sealed. ``vault`` is built only if there is a row to seal.

    Raises KeyCheckError when the vault's keys are not those of the database.
    """
    connection = await connect_operator(dsn)
    try:
        if not await connection.fetchval(_CLEAR_COLUMNS) or not await connection.fetchval(_REST):
            return 0
        keys = vault()
        await check_master_key(dsn, keys)
        sealed, last = 0, FIRST
        while last:
            async with connection.transaction():
                last, count = await _seal_batch(connection, keys, last)
            sealed += count
        # VACUUM removes the old row versions with values in clear from the table's files.
        await connection.execute("VACUUM cardholders")
        return sealed
    finally:
        await connection.close(timeout=10)


async def _seal_batch(
    connection: asyncpg.Connection[asyncpg.Record], vault: Vault, last: str
) -> tuple[str, int]:
    """The id of the batch's last row (empty if there is none) and the number of rows sealed."""
    rows = await connection.fetch(_BATCH, last, BATCH)
    if not rows:
        return "", 0
    people = People(vault)
    unsealed = [row for row in rows if row["data_key"] is None]
    await connection.executemany(
        _SEAL,
        [
            (row["id"], *seal_person(vault, row["tenant_id"], row["live"], row["id"], people.of(row)))
            for row in unsealed
        ],
    )
    await connection.execute(_BLANK_ROWS, [row["id"] for row in rows if row["data_key"] is not None])
    return rows[-1]["id"], len(unsealed)
