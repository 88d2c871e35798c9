"""Custody of what applicants say and show: sealed with a key for each case and purpose, read for that purpose
alone.

A reader names a purpose and leaves a row before anything is opened. Erasing destroys the keys; the sealed
values go too, but it is the key that makes them unreadable, in copies of the database as well as soon as
those no longer hold it.
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
TOKEN_BYTES: Final = 16

_LOAD_KEYS: Final = "SELECT purpose, wrapped FROM kyc_data_keys WHERE check_id = $1::uuid"
_KEEP_KEY: Final = (
    "INSERT INTO kyc_data_keys (check_id, purpose, wrapped, created_at) VALUES ($1::uuid, $2, $3, $4)"
)
_FORGET: Final = "DELETE FROM kyc_values WHERE check_id = $1::uuid AND field = ANY ($2::text[])"
_KEEP: Final = """
    INSERT INTO kyc_values (token, check_id, purpose, field, sealed, created_at)
    VALUES ($1, $2::uuid, $3, $4, $5, $6)
"""
# The key of the purpose that the reader names, not of the one that the value was sealed for.
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

# As text: the classes are generic in the type stubs alone.
Handle: TypeAlias = "Connection | asyncpg.Connection[asyncpg.Record]"


class CustodyError(Exception):
    """A value may not, or can no longer, be read. The message holds no value."""


def new_token() -> str:
    """The name of a value in custody: random, and worth nothing by itself."""
    return f"kyv_{secrets.token_urlsafe(TOKEN_BYTES)}"


async def keep(
    connection: Connection,
    vault: Vault,
    check_id: str,
    values: Mapping[str, bytes],
    tokens: Mapping[str, str],
    now_ms: int,
) -> None:
    """Take ``values`` (by field) into custody under their ``tokens``, in place of earlier ones.

    The caller holds the check's row in this transaction, so nobody else makes its keys meanwhile.
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
    """Drop the values of ``fields``."""
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

    ``connection`` is in no transaction: who asked is on record before anything is opened, and stays there.
    Raises CustodyError when one of them was given for another purpose, or its key has been destroyed.
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
    """Destroy the keys of a check and drop what they sealed; returns how many keys there were."""
    status = await connection.execute(_DESTROY, check_id, to_datetime(now_ms))
    await connection.execute(_FORGET_ALL, check_id)
    return int(status.rpartition(" ")[2])


def rewrapped(vault: Vault, check_id: str, purpose: str, wrapped: bytes) -> bytes | None:
    """A data key sealed under the current master key; ``None`` where it is already."""
    return vault.reseal(KEY_PURPOSE, wrapped, _key_context(check_id, purpose))


def _opened(vault: Vault, check_id: str, purpose: str, row: Any) -> bytes:
    key = vault.data_key(KEY_PURPOSE, row["wrapped"], _key_context(check_id, purpose))
    return key.open(row["sealed"], _context(check_id, purpose, row["field"], row["token"]))


def _key_context(check_id: str, purpose: str) -> bytes:
    return f"{check_id}\0{purpose}".encode()


def _context(check_id: str, purpose: str, field: str, token: str) -> bytes:
    return f"{check_id}\0{purpose}\0{field}\0{token}".encode()
