"""What users do with their own account: sign in with password and one-time code, and change both."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from actors.vault import Vault
from api.access.tokens import Caller
from api.database.pool import Connection
from api.users.one_time_codes import (
    SEAL,
    new_recovery_codes,
    recovery_digest,
    recovery_digests,
    step_of,
)
from api.users.views import scopes_of
from engine.limits import ONE_TIME_CODE_FAILURES_MAX, ONE_TIME_CODE_PAUSE_MINUTES
from engine.scopes import MODES, Mode

_SELECT: Final = """
    SELECT u.id::text, u.tenant_id::text, t.name AS tenant, u.email, u.name, u.role, u.modes, u.reveal,
           u.password_hash, u.totp_sealed, u.totp_step, cardinality(u.recovery_digests) AS recovery_codes,
           u.codes_after > now() AS codes_paused, u.zone
    FROM users u JOIN tenants t ON t.id = u.tenant_id
    WHERE u.disabled_at IS NULL AND {condition}
"""
_BY_EMAIL: Final = _SELECT.format(condition="u.email = $1")
_BY_ID: Final = _SELECT.format(condition="u.id = $1::uuid")
_LOCKED: Final = f"{_BY_ID} FOR NO KEY UPDATE OF u"
_SET_PASSWORD: Final = "UPDATE users SET password_hash = $2 WHERE id = $1::uuid"
_REHASH: Final = "UPDATE users SET password_hash = $3 WHERE id = $1::uuid AND password_hash = $2"
_ACCEPT_CODE: Final = "UPDATE users SET totp_step = $2, failed_codes = 0 WHERE id = $1::uuid"
_USE_RECOVERY_CODE: Final = """
    UPDATE users SET recovery_digests = array_remove(recovery_digests, $2), failed_codes = 0
    WHERE id = $1::uuid AND $2 = ANY (recovery_digests) RETURNING true
"""
_COUNT_FAILURE: Final = f"""
    UPDATE users SET failed_codes = (failed_codes + 1) % {ONE_TIME_CODE_FAILURES_MAX},
        codes_after = CASE WHEN failed_codes + 1 >= {ONE_TIME_CODE_FAILURES_MAX}
                           THEN now() + interval '{ONE_TIME_CODE_PAUSE_MINUTES} minutes' ELSE codes_after END
    WHERE id = $1::uuid
"""
_ENABLE_TOTP: Final = """
    UPDATE users SET totp_sealed = $2, totp_step = $3, recovery_digests = $4, failed_codes = 0,
                     codes_after = now()
    WHERE id = $1::uuid
"""
_SET_RECOVERY_CODES: Final = (
    "UPDATE users SET recovery_digests = $2 WHERE id = $1::uuid AND totp_sealed IS NOT NULL RETURNING true"
)
_SET_ZONE: Final = "UPDATE users SET zone = $2 WHERE id = $1::uuid"
_SIGNED_IN: Final = "UPDATE users SET last_sign_in_at = now() WHERE id = $1::uuid"


class Account(msgspec.Struct, frozen=True):
    """An enabled user with the means of signing in."""

    id: str
    tenant_id: str
    tenant: str
    email: str
    name: str
    role: str
    modes: list[Mode]
    reveal: bool
    password_hash: str | None
    totp_sealed: bytes | None
    totp_step: int
    recovery_codes: int
    """How many are left."""
    codes_paused: bool
    """Whether no code is accepted for a while, after too many wrong ones."""
    zone: str

    def caller(self, *, live: bool, expires_ms: int) -> Caller:
        """The user as the caller of the API, in one of its modes."""
        scopes = scopes_of(self.role, reveal=self.reveal)
        return Caller(
            self.id, self.tenant_id, live, self.role, scopes, expires_ms, "user", frozenset(self.modes)
        )

    @property
    def first_mode(self) -> Mode:
        """The mode of a new session: test, if the user may see it."""
        return next(mode for mode in MODES if mode in self.modes)


async def account_of_email(connection: Connection, email: str) -> Account | None:
    """The enabled user with that address. Case does not differ."""
    return await _account(connection, _BY_EMAIL, email.strip().lower())


async def account_of(connection: Connection, user_id: str) -> Account | None:
    """The enabled user with that id."""
    return await _account(connection, _BY_ID, user_id)


async def locked_account(connection: Connection, user_id: str) -> Account | None:
    """As ``account_of``; the row is locked until the transaction ends."""
    return await _account(connection, _LOCKED, user_id)


async def _account(connection: Connection, statement: str, value: str) -> Account | None:
    # PostgreSQL takes no NUL, and no address has one.
    row = await connection.fetchrow(statement, value.replace("\0", " "))
    return None if row is None else Account(**row)


async def set_password(connection: Connection, user_id: str, password_hash: str) -> None:
    """Replace the user's password."""
    await connection.execute(_SET_PASSWORD, user_id, password_hash)


async def rehash(connection: Connection, account: Account, password_hash: str) -> None:
    """Store the same password with other parameters, unless it has been replaced meanwhile."""
    await connection.execute(_REHASH, account.id, account.password_hash, password_hash)


async def signed_in(connection: Connection, user_id: str) -> None:
    """Record the time of the sign-in."""
    await connection.execute(_SIGNED_IN, user_id)


async def set_zone(connection: Connection, user_id: str, zone: str) -> None:
    """Choose the zone of the user's next sessions."""
    await connection.execute(_SET_ZONE, user_id, zone)


async def accept_code(connection: Connection, vault: Vault, account: Account, code: str, now_ms: int) -> bool:
    """Whether ``code`` is the user's one-time code or one of the recovery codes; either is accepted once. The
    caller has locked the account. A wrong code counts, also if the transaction does nothing else."""
    if account.totp_sealed is None or account.codes_paused:
        return False
    secret = vault.open(SEAL, account.totp_sealed, account.id.encode())
    typed = "".join(code.split())
    step = step_of(secret, typed, now_ms, account.totp_step) if typed.isascii() else None
    if step is not None:
        await connection.execute(_ACCEPT_CODE, account.id, step)
        return True
    if await connection.fetchval(_USE_RECOVERY_CODE, account.id, recovery_digest(vault, code)):
        return True
    await connection.execute(_COUNT_FAILURE, account.id)
    return False


async def enable_totp(
    connection: Connection, vault: Vault, account: Account, secret: bytes, step: int
) -> Sequence[str]:
    """Require one-time codes of ``secret`` from now on; returns the new recovery codes."""
    codes = new_recovery_codes()
    sealed = vault.seal(SEAL, secret, account.id.encode())
    await connection.execute(_ENABLE_TOTP, account.id, sealed, step, recovery_digests(vault, codes))
    return codes


async def disable_totp(connection: Connection, account: Account) -> None:
    """Require one-time codes no more."""
    await connection.execute(_ENABLE_TOTP, account.id, None, account.totp_step, [])


async def renew_recovery_codes(connection: Connection, vault: Vault, account: Account) -> Sequence[str]:
    """Replace the recovery codes; none if the user has no one-time codes."""
    codes = new_recovery_codes()
    if not await connection.fetchval(_SET_RECOVERY_CODES, account.id, recovery_digests(vault, codes)):
        return []
    return codes
