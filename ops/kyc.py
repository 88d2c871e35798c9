"""Custody on the command line: erasing what an applicant gave, reading it for a named purpose, and moving
data keys under a new master key.

None of this is on the API: who may do it has the installation's keys.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg

from actors.vault import Vault
from api.database.pool import Connection
from api.kyc import applicant_data as custody
from api.kyc.applicant_data import CustodyError
from api.kyc.cases import FIND_ANY
from api.kyc.erasure import erase as erase_check
from engine.ids import is_id
from engine.kyc.flows import EVIDENCE, PURPOSE_OF, PURPOSES
from engine.kyc.images import media_type_of

READER: Final = re.compile(r"[\w.@+-][\w.@+ -]{0,99}")

_OF_CARDHOLDER: Final = "SELECT id::text FROM kyc_checks WHERE cardholder_id = $1::uuid ORDER BY id"
_KEYS: Final = """
    SELECT check_id::text, purpose, wrapped FROM kyc_data_keys WHERE wrapped IS NOT NULL
    ORDER BY check_id, purpose
"""
_REWRAP: Final = """
    UPDATE kyc_data_keys SET wrapped = $4
    WHERE check_id = $1::uuid AND purpose = $2 AND wrapped = $3
"""


class KycError(Exception):
    """What was asked for cannot be done. The message is one line without values."""


async def erase(dsn: str, *, check_id: str | None = None, cardholder_id: str | None = None) -> int:
    """Destroy the data keys of one check, or of all checks of a cardholder; returns how many were erased now.

    A check that was not completed ends: ``pending`` expires and ``in_review`` fails. The result of a
    completed one stays, without the data that led to it. Raises KycError when there is no such check.
    """
    if (check_id is None) == (cardholder_id is None):
        raise KycError("name a check or a cardholder")
    async with _connected(dsn) as connection:
        ids = [check_id] if check_id else await _checks_of(connection, cardholder_id or "")
        count = 0
        for id_ in ids:
            async with connection.transaction():
                count += await _erase_one(connection, id_)
        # What was overwritten is otherwise kept until the server gets around to it.
        await connection.execute("VACUUM kyc_data_keys, kyc_values")
        return count


async def read(
    dsn: str, vault: Vault, *, check_id: str, purpose: str, reader: str
) -> tuple[dict[str, str], dict[str, bytes]]:
    """What a check has in custody for ``purpose``, in the name of ``reader``: texts, and pictures, by field.

    The access is on record before anything is opened. Raises KycError.
    """
    if purpose not in PURPOSES:
        raise KycError(f"the purpose is one of {', '.join(PURPOSES)}")
    if not READER.fullmatch(reader):
        raise KycError("the reader is a name of up to 100 letters")
    async with _connected(dsn) as connection:
        await _found(connection, check_id)
        fields = [name for name, of in PURPOSE_OF.items() if of == purpose]
        who = f"operator {reader}"
        try:
            values = await custody.read(
                connection, vault, check_id, fields, purpose=purpose, reader=who, now_ms=_now_ms()
            )
        except CustodyError as refused:
            raise KycError(str(refused)) from None
    pictures = {name: value for name, value in values.items() if name in EVIDENCE}
    return {name: value.decode() for name, value in values.items() if name not in pictures}, pictures


async def rewrap(dsn: str, vault: Vault) -> int:
    """Seal every data key under the current master key; returns how many were under an older one."""
    moved = 0
    async with _connected(dsn) as connection:
        for row in await connection.fetch(_KEYS):
            newer = custody.rewrapped(vault, row["check_id"], row["purpose"], row["wrapped"])
            if newer is not None:
                await connection.execute(_REWRAP, row["check_id"], row["purpose"], row["wrapped"], newer)
                moved += 1
    return moved


def write_pictures(pictures: dict[str, bytes], folder: Path) -> list[Path]:
    """Write pictures as files that only their owner can read; existing files are not overwritten."""
    written = []
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, picture in pictures.items():
        path = folder / f"{name}.{str(media_type_of(picture)).rpartition('/')[2]}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise KycError(f"{path} exists already") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(picture)
        written.append(path)
    return written


async def _erase_one(connection: Connection, check_id: str) -> int:
    row = await _found(connection, check_id, lock=True)
    return int(await erase_check(connection, row, _now_ms()))


async def _checks_of(connection: Connection, cardholder_id: str) -> list[str]:
    rows = await connection.fetch(_OF_CARDHOLDER, cardholder_id) if is_id(cardholder_id) else []
    if not rows:
        raise KycError("there is no check of such a cardholder")
    return [row["id"] for row in rows]


async def _found(connection: Connection, check_id: str, *, lock: bool = False) -> Any:
    statement = FIND_ANY + (" FOR NO KEY UPDATE" if lock else "")
    row = await connection.fetchrow(statement, check_id) if is_id(check_id) else None
    if row is None:
        raise KycError("there is no such check")
    return row


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1) as pool:
        async with pool.acquire() as connection:
            yield connection


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
