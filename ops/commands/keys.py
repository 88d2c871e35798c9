"""``stanchion keys``: which master key seals each stored secret, and sealing under the current one.

A rotation puts a new key first in STANCHION_MASTER_KEY. New values are then sealed under it; older keys still
open older values. ``reseal`` seals older values under the current key, so that keys between the current and
the oldest one can be removed. The oldest key stays for ever: look-ups (card numbers, client secrets) and card
verification values derive from it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

import asyncpg

from actors.network.authentication_keys import SEAL as AUTHENTICATION
from actors.network.card_secrets import SEAL as PAN
from actors.vault import Vault, VaultError
from actors.webhooks.signing_secrets import SEAL as WEBHOOK
from api.people.personal_data import KEY_PURPOSE as CARDHOLDER
from api.users.one_time_codes import SEAL as TOTP
from ops.commands.kyc import rewrap
from ops.database.operator_acts import on_installation, record
from ops.database.operator_connection import connect_operator

BATCH: Final = 500
KEY_ID: Final = "substring({column} from 2 for 4)"
"""The id of the key in a sealed value (``actors.vault``)."""

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class KeysError(Exception):
    """A value cannot be opened with the given keys. The message is one line without values."""


@dataclass(frozen=True)
class Sealed:
    """A column of sealed values. ``purpose`` and the column ``context`` open them. Without a purpose they are
    only counted: their owners seal them again, or they expire."""

    name: str
    table: str
    column: str
    context: str = ""
    purpose: str | None = None


COLUMNS: Final = (
    Sealed("card numbers", "pans", "sealed", "card_id", PAN),
    Sealed("webhook secrets", "webhook_endpoints", "secret_sealed", "id", WEBHOOK),
    Sealed("previous webhook secrets", "webhook_endpoints", "previous_secret_sealed", "id", WEBHOOK),
    Sealed("authentication keys", "authentication_keys", "sealed", "programme_id", AUTHENTICATION),
    Sealed(
        "previous authentication keys",
        "authentication_keys",
        "previous_sealed",
        "programme_id",
        AUTHENTICATION,
    ),
    Sealed("data keys of cardholders", "cardholders", "data_key", "id", CARDHOLDER),
    Sealed("one-time code secrets", "users", "totp_sealed", "id", TOTP),
    Sealed("data keys of applicants", "kyc_data_keys", "wrapped"),
    Sealed("decision secrets", "programmes", "decision_secret_sealed"),
    Sealed("stored answers, kept for a day", "idempotency", "body"),
)


async def status(dsn: str, vault: Vault) -> list[tuple[str, Counter[int | None]]]:
    """For each kind of secret, the number of values by the position of their master key: 0 is the current
    key, ``None`` a key that is not in the list."""
    positions = {key_id: position for position, key_id in enumerate(vault.key_ids)}
    connection = await connect_operator(dsn)
    try:
        found = []
        for each in COLUMNS:
            key_id = KEY_ID.format(column=each.column)
            rows = await connection.fetch(
                f"SELECT {key_id} AS key_id, count(*) FROM {each.table}"
                f" WHERE {each.column} IS NOT NULL GROUP BY 1"
            )
            counts: Counter[int | None] = Counter()
            for row in rows:
                counts[positions.get(bytes(row["key_id"]))] += row["count"]
            found.append((each.name, counts))
        return found
    finally:
        await connection.close(timeout=10)


async def reseal(dsn: str, vault: Vault, operator: str) -> list[tuple[str, int]]:
    """Seal values of older keys under the current one, while the installation runs; returns the number of
    each kind. Raises KeysError; values sealed before the error stay sealed."""
    connection = await connect_operator(dsn)
    try:
        await record(connection, operator, on_installation("reseal_secrets", {"phase": "begun"}))
        moved = [
            (each.name, await _reseal(connection, vault, each))
            for each in COLUMNS
            if each.purpose is not None
        ]
        done = {"phase": "done", "resealed": dict(moved)}
        await record(connection, operator, on_installation("reseal_secrets", done))
    finally:
        await connection.close(timeout=10)
    return [*moved, ("data keys of applicants", await rewrap(dsn, vault, operator))]


async def _reseal(connection: Connection, vault: Vault, each: Sealed) -> int:
    assert each.purpose is not None, "columns without a purpose are only counted"
    moved = 0
    while True:
        rows = await connection.fetch(
            f"SELECT {each.context}::text AS context, {each.column} AS sealed FROM {each.table}"
            f" WHERE {each.column} IS NOT NULL AND {KEY_ID.format(column=each.column)} <> $1 LIMIT $2",
            vault.key_ids[0],
            BATCH,
        )
        if not rows:
            return moved
        olds = [bytes(row["sealed"]) for row in rows]
        contexts = [row["context"] for row in rows]
        try:
            news = [
                vault.reseal(each.purpose, old, context.encode())
                for old, context in zip(olds, contexts, strict=True)
            ]
        except VaultError as failure:
            raise KeysError(f"{each.name}: {failure}") from None
        # Values that were replaced in the meantime are left unchanged.
        await connection.execute(
            f"UPDATE {each.table} AS t SET {each.column} = n.new"
            " FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n (context, old, new)"
            f" WHERE t.{each.context} = n.context::uuid AND t.{each.column} = n.old",
            contexts,
            olds,
            news,
        )
        moved += len(rows)
