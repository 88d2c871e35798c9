"""Tenants and their API clients. They are created on the command line, never through the API.

The return value is the only place where a secret appears; the database keeps a keyed digest of it.
"""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import asyncpg

from actors.ids import new_id
from actors.vault import Vault
from engine.scopes import DEFAULT_SCOPES, MODES, ROLES, SCOPES, Mode, Role
from ops.embedded.passwords import write_private

SECRET_PURPOSE: Final = "client-secret"
TENANT_NAME_CHARACTERS_MAX: Final = 100

# Clients of a new installation: two separate tenants, both roles, both modes.
DEMO_CLIENTS: Final[tuple[tuple[str, Mode, Role], ...]] = (
    ("demo", "test", "admin"),
    ("demo", "test", "user"),
    ("demo", "live", "admin"),
    ("rival", "test", "admin"),
)


class ClientError(Exception):
    """A client cannot be created or revoked as requested. The message is one line."""


@dataclass(frozen=True)
class ClientCredentials:
    """A new client with its secret, in the form of ``run.json``."""

    name: str
    """The tenant's name."""
    mode: str
    client_id: str
    client_secret: str
    role: str
    scopes: tuple[str, ...]


async def create_client(
    connection: asyncpg.Connection[asyncpg.Record],
    vault: Vault,
    *,
    tenant: str,
    mode: str,
    role: str,
    scopes: tuple[str, ...] = (),
) -> ClientCredentials:
    """Create a client of ``tenant``, and the tenant if it is new. No scopes = the default set. Raises
    ClientError."""
    _check(tenant, mode, role, scopes)
    identifier = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
    credentials = ClientCredentials(
        name=tenant,
        mode=mode,
        client_id=f"cl_{mode}_{identifier}",
        client_secret=f"sk_{secrets.token_urlsafe(32)}",
        role=role,
        scopes=tuple(scope for scope in SCOPES if scope in (scopes or DEFAULT_SCOPES)),
    )
    async with connection.transaction():
        await connection.execute(
            "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING", new_id(), tenant
        )
        await connection.execute(
            "INSERT INTO clients (id, tenant_id, client_id, secret_digest, mode, role, scopes)"
            " SELECT $1, tenants.id, $3, $4, $5, $6, $7 FROM tenants WHERE tenants.name = $2",
            new_id(),
            tenant,
            credentials.client_id,
            vault.digest(SECRET_PURPOSE, credentials.client_secret.encode()),
            mode,
            role,
            list(credentials.scopes),
        )
    return credentials


def _check(tenant: str, mode: str, role: str, scopes: tuple[str, ...]) -> None:
    if not tenant.strip() or len(tenant) > TENANT_NAME_CHARACTERS_MAX or not tenant.isprintable():
        raise ClientError(f"a tenant's name must have 1 to {TENANT_NAME_CHARACTERS_MAX} printable characters")
    if mode not in MODES:
        raise ClientError(f"the mode must be one of {', '.join(MODES)}")
    if role not in ROLES:
        raise ClientError(f"the role must be one of {', '.join(ROLES)}")
    unknown = sorted(set(scopes) - set(SCOPES))
    if unknown:
        raise ClientError(f"unknown scope: {', '.join(unknown)}; scopes are {' '.join(SCOPES)}")


async def revoke_client(dsn: str, client_id: str) -> None:
    """Revoke a client for ever: it gets no more tokens, and those it has become invalid within a second.
    Raises ClientError when it does not exist or is already revoked."""
    connection = await asyncpg.connect(dsn, timeout=10)
    try:
        revoked = await connection.fetchval(
            "UPDATE clients SET revoked_at = now() WHERE client_id = $1 AND revoked_at IS NULL"
            " RETURNING true",
            client_id,
        )
    finally:
        await connection.close(timeout=10)
    if not revoked:
        raise ClientError("no active client has this id")


async def ensure_demo_clients(dsn: str, vault: Vault, path: Path) -> list[ClientCredentials]:
    """The demo clients of an installation, created on its first start and kept in ``path`` with their
    secrets.

    They are created again when the database does not know them, so that the clients in ``run.json`` always
    work.
    """
    connection = await asyncpg.connect(dsn, timeout=10, command_timeout=30)
    try:
        stored = read_clients(path)
        known = await connection.fetchval(
            "SELECT count(*) FROM clients WHERE client_id = ANY($1) AND revoked_at IS NULL",
            [credentials.client_id for credentials in stored],
        )
        if stored and known == len(stored):
            return stored
        made = [
            await create_client(connection, vault, tenant=tenant, mode=mode, role=role)
            for tenant, mode, role in DEMO_CLIENTS
        ]
    finally:
        await connection.close(timeout=10)
    write_private(path, json.dumps([asdict(credentials) for credentials in made], indent=2) + "\n")
    return made


def read_clients(path: Path) -> list[ClientCredentials]:
    """The clients stored in ``path``; none when the file does not exist."""
    if not path.exists():
        return []
    return [
        ClientCredentials(**kept | {"scopes": tuple(kept["scopes"])})
        for kept in json.loads(path.read_bytes())
    ]
