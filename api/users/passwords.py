"""Passwords of users: Argon2id (RFC 9106), as PHC strings.

The parameters are those that OWASP recommends for 46 MiB. Hashing runs in a thread, a few at a time.
"""

from __future__ import annotations

import asyncio
import os
from functools import cache
from typing import Final

from cryptography.exceptions import InvalidKey
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from engine.limits import PASSWORD_CHARS_MAX, PASSWORD_CHARS_MIN, PASSWORD_HASHES_AT_ONCE

_ITERATIONS: Final = 1
_LANES: Final = 1
_MEMORY_KIB: Final = 47_104
_HASH_BYTES: Final = 32
_SALT_BYTES: Final = 16
_PARAMETERS: Final = f"$argon2id$v=19$m={_MEMORY_KIB},t={_ITERATIONS},p={_LANES}$"


class Passwords:
    """Hashes and verifies passwords for one API server."""

    def __init__(self) -> None:
        self._places = asyncio.Semaphore(PASSWORD_HASHES_AT_ONCE)

    async def hash(self, password: str) -> str:
        """The string to store."""
        async with self._places:
            return await asyncio.to_thread(hash_of, password)

    async def verify(self, password: str, stored: str | None) -> bool:
        """Whether ``password`` has the hash ``stored``. Without a hash it takes the same time, and is
        false."""
        async with self._places:
            matches = await asyncio.to_thread(_matches, password, stored or _hash_of_nobody())
        return matches and stored is not None


def fault_of(password: str, *names: str) -> str | None:
    """Why a new password is refused, as a sentence; ``names`` are those of its user."""
    if len(password) < PASSWORD_CHARS_MIN:
        return f"A password has at least {PASSWORD_CHARS_MIN} characters."
    if len(password) > PASSWORD_CHARS_MAX:
        return f"A password has at most {PASSWORD_CHARS_MAX} characters."
    if len(set(password.lower())) < PASSWORD_CHARS_MIN // 2:
        return "The password repeats a few characters."
    if any(name and name.lower() in password.lower() for name in names):
        return "The password holds your name or your e-mail address."
    return None


def hash_of(password: str) -> str:
    """The PHC string of ``password`` with a random salt."""
    return _kdf(os.urandom(_SALT_BYTES)).derive_phc_encoded(password.encode())


def is_current(stored: str) -> bool:
    """Whether ``stored`` was made with the parameters of this release."""
    return stored.startswith(_PARAMETERS)


def _kdf(salt: bytes) -> Argon2id:
    return Argon2id(
        salt=salt, length=_HASH_BYTES, iterations=_ITERATIONS, lanes=_LANES, memory_cost=_MEMORY_KIB
    )


def _matches(password: str, stored: str) -> bool:
    try:
        Argon2id.verify_phc_encoded(password.encode(), stored)
    except InvalidKey:
        return False
    return True


@cache
def _hash_of_nobody() -> str:
    """A hash that no password has, for sign-in names that do not exist."""
    return hash_of(os.urandom(32).hex())
