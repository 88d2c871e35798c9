"""Detects a lost or wrong master key at start.

With another key, card numbers, client secrets and stored answers would fail one by one, and late. Therefore
the database stores a constant that only the right keys can open and digest, and nothing is served until this
check passes.
"""

from __future__ import annotations

import hmac
from typing import Final

from actors.vault import Vault, VaultError
from ops.database.operator_connection import connect_operator

PURPOSE: Final = "key-check"
_CONSTANT: Final = b"stanchion"


class KeyCheckError(Exception):
    """The master keys are not those of this database. The message is one line."""


async def check_master_key(dsn: str, vault: Vault) -> None:
    """Raise KeyCheckError unless ``vault`` has the keys of the database at ``dsn``; an empty database adopts
    them.

    The digest shows that the oldest key, which look-ups need, is unchanged. The sealed value shows that the
    key which sealed last is still in the list; it is sealed again each time and so follows a rotation.
    """
    sealed, digest = vault.seal(PURPOSE, _CONSTANT), vault.digest(PURPOSE, _CONSTANT)
    connection = await connect_operator(dsn, command_seconds=30)
    try:
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO key_check (sealed, digest) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                sealed,
                digest,
            )
            row = await connection.fetchrow("SELECT sealed, digest FROM key_check FOR UPDATE")
            assert row is not None
            if not hmac.compare_digest(row["digest"], digest) or not _opens(vault, row["sealed"]):
                raise KeyCheckError(
                    "the master key is not the one that this database was created with: restore that key in"
                    " STANCHION_MASTER_KEY, or in keys/master.key of the state folder"
                )
            await connection.execute("UPDATE key_check SET sealed = $1", sealed)
    finally:
        await connection.close(timeout=10)


def _opens(vault: Vault, sealed: bytes) -> bool:
    try:
        return vault.open(PURPOSE, sealed) == _CONSTANT
    except VaultError:
        return False
