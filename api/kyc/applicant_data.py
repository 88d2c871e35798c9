"""Custody of applicant data: sealed with one key for each case and purpose, readable for that purpose only.

Every read names a purpose, and its audit row is written before a value is opened. Erasure destroys the keys
and deletes the sealed values. The destroyed keys make the values unreadable in backups too, once no backup
holds the keys.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping
from typing import Any, Final, TypeAlias

import asyncpg

from actors.vault import Vault
from api.database.pool import Connection
from engine.instant import to_datetime
from engine.kyc.flows import PURPOSE_OF, Purpose

KEY_PURPOSE: Final = "kyc-data-key"
VALUE_TOKEN_BYTES: Final = 16

_LOAD_KEYS: Final = "SELECT purpose, wrapped FROM kyc_data_keys WHERE check_id = $1::uuid"
_KEEP_KEY: Final = (
    "INSERT INTO kyc_data_keys (check_id, purpose, wrapped, created_at) VALUES ($1::uuid, $2, $3, $4)"
)
_FORGET: Final = "DELETE FROM kyc_values WHERE check_id = $1::uuid AND field = ANY ($2::text[])"
_KEEP: Final = """
    INSERT INTO kyc_values (token, check_id, purpose, field, sealed, created_at)
    VALUES ($1, $2::uuid, $3, $4, $5, $6)
"""
# Joins the key of the reader's purpose, not of the purpose that the value was sealed for.
_FIND: Final = """
    SELECT v.field, v.token, v.sealed, k.wrapped
    FROM kyc_values v LEFT JOIN kyc_data_keys k ON k.check_id = v.check_id AND k.purpose = $3
    WHERE v.check_id = $1::uuid AND v.field = ANY ($2::text[])
"""
_RECORD: Final = """
    INSERT INTO kyc_accesses (at, check_id, field, purpose, reader, granted)
    SELECT $1, $2::uuid, f.field, $3, $4, f.granted
    FROM unnest($5::text[], $6::boolean[]) AS f (field, granted)
"""
_DESTROY: Final = """
    UPDATE kyc_data_keys SET wrapped = NULL, destroyed_at = $2
    WHERE check_id = $1::uuid AND wrapped IS NOT NULL
"""
_FORGET_ALL: Final = "DELETE FROM kyc_values WHERE check_id = $1::uuid"

# Quoted, because the classes are generic in the type stubs only.
Handle: TypeAlias = "Connection | asyncpg.Connection[asyncpg.Record]"


class CustodyError(Exception):
    """The purpose does not permit the read, or the key is destroyed. The message holds no value."""


def new_token() -> str:
    """A random reference to a value in custody; it reveals nothing about the value."""
    return f"kyv_{secrets.token_urlsafe(VALUE_TOKEN_BYTES)}"


async def keep(
    connection: Connection,
    vault: Vault,
    check_id: str,
    values: Mapping[str, bytes],
    tokens: Mapping[str, str],
    now_ms: int,
) -> None:
    """Seal and store ``values`` (by field) under their ``tokens``; they replace earlier ones.

    The caller's transaction has locked the check's row, so no other request creates its keys concurrently.
    """
    if not values:
        return
    at = to_datetime(now_ms)
    wrapped = {row["purpose"]: row["wrapped"] for row in await connection.fetch(_LOAD_KEYS, check_id)}
    keys = {}
    for purpose in {PURPOSE_OF[field] for field in values}:
        context = _key_context(check_id, purpose)
        if purpose in wrapped:
            keys[purpose] = vault.data_key(KEY_PURPOSE, wrapped[purpose], context)
        else:
            keys[purpose], fresh = vault.new_data_key(KEY_PURPOSE, context)
            await connection.execute(_KEEP_KEY, check_id, purpose, fresh, at)
    rows = []
    for field, value in values.items():
        purpose = PURPOSE_OF[field]
        sealed = keys[purpose].seal(value, _context(check_id, purpose, field, tokens[field]))
        rows.append((tokens[field], check_id, purpose, field, sealed, at))
    await forget(connection, check_id, values)
    await connection.executemany(_KEEP, rows)


async def forget(connection: Connection, check_id: str, fields: Collection[str]) -> None:
    """Delete the values of ``fields``."""
    await connection.execute(_FORGET, check_id, list(fields))


async def read(
    connection: Handle,
    vault: Vault,
    check_id: str,
    fields: Collection[str],
    *,
    purpose: Purpose,
    reader: str,
    now_ms: int,
) -> dict[str, bytes]:
    """The values of ``fields`` that are in custody, for ``purpose`` only.

    ``connection`` is not in a transaction, so the audit rows commit before a value is opened and no rollback
    removes them. Raises CustodyError if a value was given for another purpose or its key is destroyed.
    """
    rows = await connection.fetch(_FIND, check_id, list(fields), purpose)
    granted = [PURPOSE_OF[row["field"]] == purpose and row["wrapped"] is not None for row in rows]
    names = [row["field"] for row in rows]
    if rows:
        await connection.execute(_RECORD, to_datetime(now_ms), check_id, purpose, reader, names, granted)
    if not all(granted):
        raise CustodyError("not given for this purpose, or erased")
    return {row["field"]: _opened(vault, check_id, purpose, row) for row in rows}


async def destroy(connection: Handle, check_id: str, now_ms: int) -> int:
    """Destroy the keys of a check and delete its values; returns the number of destroyed keys."""
    status = await connection.execute(_DESTROY, check_id, to_datetime(now_ms))
    await connection.execute(_FORGET_ALL, check_id)
    return int(status.rpartition(" ")[2])


def rewrapped(vault: Vault, check_id: str, purpose: str, wrapped: bytes) -> bytes | None:
    """The data key sealed under the current master key; ``None`` if it already is."""
    return vault.reseal(KEY_PURPOSE, wrapped, _key_context(check_id, purpose))


def _opened(vault: Vault, check_id: str, purpose: str, row: Any) -> bytes:
    key = vault.data_key(KEY_PURPOSE, row["wrapped"], _key_context(check_id, purpose))
    return key.open(row["sealed"], _context(check_id, purpose, row["field"], row["token"]))


def _key_context(check_id: str, purpose: str) -> bytes:
    return f"{check_id}\0{purpose}".encode()


def _context(check_id: str, purpose: str, field: str, token: str) -> bytes:
    return f"{check_id}\0{purpose}\0{field}\0{token}".encode()
