"""Users for tests: rows with a known password, and what their authenticators show."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from itertools import count

from cryptography.hazmat.primitives.hashes import SHA1
from cryptography.hazmat.primitives.twofactor.totp import TOTP

from actors.ids import new_id
from api.users.one_time_codes import SEAL, recovery_digests
from api.users.passwords import hash_of
from tests.support.api.stack import Installation

PASSWORD = "correct horse battery staple"
_numbers = count(1)
_TENANT = "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_USER = """
    INSERT INTO users (id, tenant_id, email, name, role, modes, reveal, password_hash, totp_sealed,
                       recovery_digests)
    SELECT $1, id, $3, $4, $5, $6, $7, $8, $9, $10 FROM tenants WHERE name = $2
"""


@dataclass(frozen=True)
class PersonOfTest:
    """A user with the password ``PASSWORD``."""

    id: str
    email: str
    name: str
    secret: bytes | None

    def code(self, steps_ahead: int = 0) -> str:
        """The one-time code of now, or of a later time step."""
        assert self.secret is not None, "this user has no authenticator"
        return code_of(self.secret, steps_ahead)


def code_of(secret: bytes, steps_ahead: int = 0) -> str:
    """The one-time code of a secret."""
    return TOTP(secret, 6, SHA1(), 30).generate(int(time.time()) + 30 * steps_ahead).decode()


@cache
def _hash() -> str:
    return hash_of(PASSWORD)


async def person(
    running: Installation,
    tenant: str,
    *,
    role: str = "owner",
    modes: tuple[str, ...] = ("test", "live"),
    reveal: bool = False,
    secret: bytes | None = None,
    recovery_codes: tuple[str, ...] = (),
) -> PersonOfTest:
    """A new user of ``tenant``; with one-time codes if there is a ``secret``."""
    vault, number, id_ = running.services.vault, next(_numbers), new_id()
    made = PersonOfTest(id_, f"person-{number}@{tenant}.example", f"Person {number}", secret)
    sealed = None if secret is None else vault.seal(SEAL, secret, id_.encode())
    await running.services.pool.execute(_TENANT, new_id(), tenant)
    await running.services.pool.execute(
        _USER,
        id_,
        tenant,
        made.email,
        made.name,
        role,
        list(modes),
        reveal,
        _hash(),
        sealed,
        recovery_digests(vault, recovery_codes),
    )
    return made
