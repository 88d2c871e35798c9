"""``stanchion keys authentication``: the key that a programme shares with its access control server.

With a key, 3-D Secure authentication values of the programme's cards are verified (``engine.threeds``).
"""

from __future__ import annotations

import re
import secrets
import sys
from pathlib import Path
from typing import Final

from actors.network.authentication_keys import SEAL
from actors.vault import Vault
from engine.ids import is_id
from engine.threeds import KEY_BYTES
from ops.database.operator_connection import connect_operator

STANDARD_INPUT: Final = "-"
_DIGITS: Final = re.compile(rf"[0-9A-Fa-f]{{{2 * KEY_BYTES}}}", re.ASCII)

_SET: Final = """
    INSERT INTO authentication_keys AS k (programme_id, sealed)
    SELECT id, $2 FROM programmes WHERE id = $1::uuid
    ON CONFLICT (programme_id) DO UPDATE
    SET sealed = excluded.sealed, previous_sealed = k.sealed, changed_at = clock_timestamp()
"""
_REMOVE: Final = """
    UPDATE authentication_keys SET sealed = NULL, previous_sealed = NULL, changed_at = clock_timestamp()
    WHERE programme_id = $1::uuid AND (sealed IS NOT NULL OR previous_sealed IS NOT NULL)
"""


class AuthenticationKeyError(Exception):
    """The key cannot be set or removed. The message is one line without key material."""


def read_key(source: str) -> bytes:
    """The key in the file ``source`` (``-``: standard input): 64 hexadecimal digits. Raises
    AuthenticationKeyError."""
    try:
        text = sys.stdin.read() if source == STANDARD_INPUT else Path(source).read_text("ascii")
    except (OSError, UnicodeDecodeError):
        raise AuthenticationKeyError("the file of the key cannot be read") from None
    if _DIGITS.fullmatch(text.strip()) is None:
        raise AuthenticationKeyError(f"a key is {2 * KEY_BYTES} hexadecimal digits")
    return bytes.fromhex(text.strip())


def new_key() -> bytes:
    """A random key."""
    return secrets.token_bytes(KEY_BYTES)


async def set_key(dsn: str, vault: Vault, programme_id: str, key: bytes) -> None:
    """Make ``key`` the programme's current key. The one before it stays valid until the next change. Raises
    AuthenticationKeyError."""
    wanted = programme_id.lower()
    sealed = vault.seal(SEAL, key, wanted.encode())
    if not is_id(wanted) or not await _execute(dsn, _SET, wanted, sealed):
        raise AuthenticationKeyError("no programme has this id")


async def remove_key(dsn: str, programme_id: str) -> None:
    """Remove both keys of a programme. Raises AuthenticationKeyError."""
    wanted = programme_id.lower()
    if not is_id(wanted) or not await _execute(dsn, _REMOVE, wanted):
        raise AuthenticationKeyError("this programme has no key")


async def _execute(dsn: str, statement: str, *arguments: object) -> bool:
    """Whether the statement changed a row."""
    connection = await connect_operator(dsn)
    try:
        return not (await connection.execute(statement, *arguments)).endswith(" 0")
    finally:
        await connection.close(timeout=10)
