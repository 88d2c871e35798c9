"""``stanchion kyc``: erase an applicant's data, read it for a named purpose, seal its data keys under a new
master key.

The API offers none of this: only operators with the installation's keys may do it.
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

from actors.primary import PrimaryConnection
from actors.vault import Vault
from api.database.pool import Connection
from api.kyc import applicant_data
from api.kyc.applicant_data import CustodyError
from api.kyc.cases import FIND_ANY
from api.kyc.erasure import erase as erase_check
from engine.ids import is_id
from engine.kyc.flows import EVIDENCE, PURPOSE_OF, PURPOSES
from engine.kyc.images import media_type_of
from ops.database.operator_acts import OperatorAct, on_installation, record
from ops.database.operator_connection import connect_for_pool

KIND: Final = "kyc_check"
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
    """The request cannot be carried out. The message is one line without values."""


async def erase(
    dsn: str, operator: str, *, check_id: str | None = None, cardholder_id: str | None = None
) -> int:
    """Destroy the data keys of one check, or of all checks of a cardholder; returns the number of checks
    erased now.

    An open check ends: ``pending`` expires and ``in_review`` fails. The result of a completed check stays,
    without its data. Raises KycError when the check does not exist.
    """
    if (check_id is None) == (cardholder_id is None):
        raise KycError("give either a check or a cardholder")
    async with _connected(dsn) as connection:
        ids = [check_id] if check_id else await _checks_of(connection, cardholder_id or "")
        count = 0
        for id_ in ids:
            async with connection.transaction():
                count += await _erase_one(connection, operator, id_)
        # Without VACUUM the server keeps the overwritten row versions for a while.
        await connection.execute("VACUUM kyc_data_keys, kyc_values")
        return count


async def read(
    dsn: str, vault: Vault, operator: str, *, check_id: str, purpose: str, reader: str
) -> tuple[dict[str, str], dict[str, bytes]]:
    """The values of a check for ``purpose``: texts and pictures, by field. ``reader``: who reads.

    The access is recorded before a value is opened. Raises KycError.
    """
    if purpose not in PURPOSES:
        raise KycError(f"the purpose must be one of {', '.join(PURPOSES)}")
    if not READER.fullmatch(reader):
        raise KycError("the reader must be a name of up to 100 letters")
    async with _connected(dsn) as connection:
        row = await _find(connection, check_id)
        shown = {"purpose": purpose, "reader": reader}
        act = OperatorAct("read_kyc_data", KIND, check_id, None, shown, (row["tenant_id"], row["live"]))
        await record(connection, operator, act)
        fields = [name for name, of in PURPOSE_OF.items() if of == purpose]
        who = f"operator {reader}"
        try:
            values = await applicant_data.read(
                connection, vault, check_id, fields, purpose=purpose, reader=who, now_ms=_now_ms()
            )
        except CustodyError as refused:
            raise KycError(str(refused)) from None
    pictures = {name: value for name, value in values.items() if name in EVIDENCE}
    return {name: value.decode() for name, value in values.items() if name not in pictures}, pictures


async def rewrap(dsn: str, vault: Vault, operator: str) -> int:
    """Seal every data key under the current master key; returns how many were under an older one."""
    moved = 0
    async with _connected(dsn) as connection:
        await record(connection, operator, on_installation("rewrap_kyc_keys", {"phase": "begun"}))
        for row in await connection.fetch(_KEYS):
            newer = applicant_data.rewrapped(vault, row["check_id"], row["purpose"], row["wrapped"])
            if newer is not None:
                await connection.execute(_REWRAP, row["check_id"], row["purpose"], row["wrapped"], newer)
                moved += 1
        done = {"phase": "done", "resealed": moved}
        await record(connection, operator, on_installation("rewrap_kyc_keys", done))
    return moved


def write_pictures(pictures: dict[str, bytes], folder: Path) -> list[Path]:
    """Write pictures to files that only their owner can read; existing files are not overwritten."""
    written = []
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, picture in pictures.items():
        path = folder / f"{name}.{str(media_type_of(picture)).rpartition('/')[2]}"
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            raise KycError(f"{path} already exists") from None
        with os.fdopen(descriptor, "wb") as file:
            file.write(picture)
        written.append(path)
    return written


async def _erase_one(connection: Connection, operator: str, check_id: str) -> int:
    row = await _find(connection, check_id, lock=True)
    if not await erase_check(connection, row, _now_ms()):
        return 0
    states, of = ({"erased": False}, {"erased": True}), (row["tenant_id"], row["live"])
    await record(connection, operator, OperatorAct("erase_kyc_check", KIND, check_id, *states, of))
    return 1


async def _checks_of(connection: Connection, cardholder_id: str) -> list[str]:
    rows = await connection.fetch(_OF_CARDHOLDER, cardholder_id) if is_id(cardholder_id) else []
    if not rows:
        raise KycError("this cardholder has no check")
    return [row["id"] for row in rows]


async def _find(connection: Connection, check_id: str, *, lock: bool = False) -> Any:
    statement = FIND_ANY + (" FOR NO KEY UPDATE" if lock else "")
    row = await connection.fetchrow(statement, check_id) if is_id(check_id) else None
    if row is None:
        raise KycError("no check has this id")
    return row


@asynccontextmanager
async def _connected(dsn: str) -> AsyncIterator[Connection]:
    options: dict[str, Any] = {"connect": connect_for_pool, "connection_class": PrimaryConnection}
    async with asyncpg.create_pool(dsn, min_size=1, max_size=1, **options) as pool:
        async with pool.acquire() as connection:
            yield connection


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
