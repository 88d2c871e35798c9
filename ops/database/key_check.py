"""The guard against a lost master key.

With another key every card number, client secret and stored answer in the database would look unknown or
broken, one by one and late. So the database keeps a constant that only the right keys can open and digest,
and nothing is served until they have.
"""

from __future__ import annotations

import hmac
from typing import Final

import asyncpg

from actors.vault import Vault, VaultError

PURPOSE: Final = "key-check"
_CONSTANT: Final = b"stanchion"


class KeyCheckError(Exception):
    """The master keys are not those that this database was filled with. The message is one line."""


async def check_master_key(dsn: str, vault: Vault) -> None:
    """Raise KeyCheckError unless ``vault`` has the keys of the database at ``dsn``; an empty one takes them.

    The digest shows that the oldest key is still the one that look-ups need, the sealed value that the key
    which sealed last is still in the list. It is sealed anew each time, so it follows a rotation.
    """
    sealed, digest = vault.seal(PURPOSE, _CONSTANT), vault.digest(PURPOSE, _CONSTANT)
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=30)
    try:
        async with connection.transaction():
            await connection.execute(
                "INSERT INTO key_check (sealed, digest) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                sealed,
                digest,
            )
            kept = await connection.fetchrow("SELECT sealed, digest FROM key_check FOR UPDATE")
            assert kept is not None
            if not hmac.compare_digest(kept["digest"], digest) or not _opens(vault, kept["sealed"]):
                raise KeyCheckError(
                    "the master key is not the one this database was filled with: put that one back into"
                    " STANCHION_MASTER_KEY, or into keys/master.key of the state folder"
                )
            await connection.execute("UPDATE key_check SET sealed = $1", sealed)
    finally:
        await connection.close(timeout=10)


def _opens(vault: Vault, sealed: bytes) -> bool:
    try:
        return vault.open(PURPOSE, sealed) == _CONSTANT
    except VaultError:
        return False
