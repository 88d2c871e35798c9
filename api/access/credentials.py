"""Ids and secrets of API clients: how they are drawn, and how they are stored."""

from __future__ import annotations

import secrets
from typing import Final

from actors.vault import Vault
from engine.limits import SECRET_BYTES
from engine.scopes import Mode

SECRET_PURPOSE: Final = "client-secret"
_ID_BYTES: Final = 16

ROLE: Final = "CASE WHEN {0}.owner THEN 'owner' ELSE {0}.role END AS role"
"""The role of a row of ``clients``. Owners are stored as marked admins: the release before knows no other
role above ``user``."""

PROVEN: Final = """
    revoked_at IS NULL AND (secret_digest = {digest}
                            OR (previous_secret_digest = {digest} AND previous_secret_expires_at > now()))
"""
"""Whether the secret with this digest, which a client has proved before, is still valid. Checked under a lock
together with the grant: a rotation waits for the lock and then ends the grants of the old secret."""


def new_client_id(mode: Mode) -> str:
    """A new public id, which names the mode."""
    return f"cl_{mode}_{secrets.token_urlsafe(_ID_BYTES)}"


def new_secret() -> str:
    """A new secret of 256 random bits."""
    return f"sk_{secrets.token_urlsafe(SECRET_BYTES)}"


def digest_of(vault: Vault, secret: str) -> bytes:
    """The keyed digest in which a secret is stored."""
    return vault.digest(SECRET_PURPOSE, secret.encode())
