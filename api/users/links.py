"""Links with which users sign in once: invitations, which let them set a password, and sign-in links."""

from __future__ import annotations

import secrets
from datetime import datetime, timedelta
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from actors.vault import Vault
from engine.limits import INVITATION_DAYS, SECRET_BYTES, SIGN_IN_LINK_MINUTES

PURPOSE: Final = "sign-in-link"
PATH: Final = "/console/enter"
TOKEN_CHARS_MAX: Final = 64
LIFETIMES: Final = {
    "invitation": timedelta(days=INVITATION_DAYS),
    "sign_in": timedelta(minutes=SIGN_IN_LINK_MINUTES),
}

Connection: TypeAlias = "asyncpg.Connection[Any] | PoolConnectionProxy[Any]"
"""A connection of the API, or of an operator's command."""
LinkPurpose = Literal["invitation", "sign_in"]

# Links of one purpose replace each other: only the newest works.
_CREATE: Final = """
    WITH replaced AS (DELETE FROM sign_in_links WHERE user_id = $2::uuid AND purpose = $3)
    INSERT INTO sign_in_links (token_digest, user_id, purpose, expires_at)
    VALUES ($1, $2::uuid, $3, now() + $4) RETURNING expires_at
"""
_FOUND: Final = """
    SELECT l.user_id::text, l.purpose, u.name, u.email FROM sign_in_links l JOIN users u ON u.id = l.user_id
    WHERE l.token_digest = $1 AND l.expires_at > now() AND u.disabled_at IS NULL
"""
_USE: Final = """
    DELETE FROM sign_in_links l USING users u
    WHERE l.token_digest = $1 AND l.expires_at > now() AND u.id = l.user_id AND u.disabled_at IS NULL
    RETURNING l.user_id::text, l.purpose, u.name, u.email
"""
_END: Final = "DELETE FROM sign_in_links WHERE user_id = $1::uuid"
_SWEEP: Final = """
    DELETE FROM sign_in_links WHERE token_digest IN (
        SELECT token_digest FROM sign_in_links WHERE expires_at < now()
        ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED)
"""


class Link(NamedTuple):
    """A new link. ``path`` holds its secret."""

    path: str
    expires_at: datetime


class LinkedUser(NamedTuple):
    """The user of a link that works."""

    id: str
    purpose: LinkPurpose
    name: str
    email: str


async def create_link(connection: Connection, vault: Vault, user_id: str, purpose: LinkPurpose) -> Link:
    """A new link; earlier ones of the user for this purpose end."""
    token = secrets.token_urlsafe(SECRET_BYTES)
    await connection.execute(_SWEEP)
    expires_at = await connection.fetchval(
        _CREATE, digest_of(vault, token), user_id, purpose, LIFETIMES[purpose]
    )
    return Link(f"{PATH}/{token}", expires_at)


async def find_link(connection: Connection, vault: Vault, token: str) -> LinkedUser | None:
    """The user of a link that works, without using it."""
    return await _user(connection, _FOUND, vault, token)


async def use_link(connection: Connection, vault: Vault, token: str) -> LinkedUser | None:
    """The user of a link, which works no more if the transaction commits."""
    return await _user(connection, _USE, vault, token)


async def end_links(connection: Connection, user_id: str) -> None:
    """End all links of a user."""
    await connection.execute(_END, user_id)


async def _user(connection: Connection, statement: str, vault: Vault, token: str) -> LinkedUser | None:
    if len(token) > TOKEN_CHARS_MAX:
        return None
    row = await connection.fetchrow(statement, digest_of(vault, token))
    return None if row is None else LinkedUser(*row)


def digest_of(vault: Vault, token: str) -> bytes:
    """The keyed digest in which a link is stored."""
    return vault.digest(PURPOSE, token.encode())
