"""Tenants and their API clients, from the command line: the first owner of a tenant, and whatever an owner
cannot do through the API (``/v1/clients``).

The return value is the only place where a secret appears; the database keeps a keyed digest of it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, cast

import asyncpg

from actors.ids import new_id
from actors.vault import Vault
from api.access.credentials import digest_of, new_client_id, new_secret
from engine.scopes import MODES, ROLES, SCOPES, Mode, Role, default_scopes
from ops.database.operator_acts import OperatorAct, record
from ops.database.operator_connection import connect_operator
from ops.embedded.passwords import write_private

TENANT_NAME_CHARACTERS_MAX: Final = 100
START: Final = "stanchion up"
"""The operator in whose name the demo clients are created."""

# Clients of a new installation: two separate tenants, all roles, both modes.
DEMO_CLIENTS: Final[tuple[tuple[str, Mode, Role], ...]] = (
    ("demo", "test", "admin"),
    ("demo", "test", "user"),
    ("demo", "live", "admin"),
    ("rival", "test", "admin"),
    ("demo", "test", "owner"),
    ("demo", "live", "owner"),
    ("rival", "test", "owner"),
)

_TENANT: Final = "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_CLIENT: Final = """
    INSERT INTO clients (id, tenant_id, client_id, secret_digest, mode, role, owner, scopes)
    SELECT $1, tenants.id, $3, $4, $5, $6, $7, $8 FROM tenants WHERE tenants.name = $2
    RETURNING tenant_id::text
"""
_REVOKE: Final = """
    UPDATE clients SET revoked_at = now() WHERE client_id = $1 AND revoked_at IS NULL
    RETURNING id::text, tenant_id::text, live, owner
"""
_OWNERS: Final = """
    SELECT count(*) FROM clients WHERE tenant_id = $1::uuid AND live = $2 AND owner AND revoked_at IS NULL
"""


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
    operator: str,
    scopes: tuple[str, ...] = (),
) -> ClientCredentials:
    """Create a client of ``tenant``, and the tenant if it is new, in the name of ``operator``. No scopes =
    the role's default ones. Raises ClientError."""
    _check(tenant, mode, role, scopes)
    credentials = ClientCredentials(
        name=tenant,
        mode=mode,
        client_id=new_client_id(cast(Mode, mode)),
        client_secret=new_secret(),
        role=role,
        scopes=tuple(scope for scope in SCOPES if scope in (scopes or default_scopes(role))),
    )
    id_, owner = new_id(), role == "owner"
    async with connection.transaction():
        await connection.execute(_TENANT, new_id(), tenant)
        tenant_id = await connection.fetchval(
            _CLIENT,
            id_,
            tenant,
            credentials.client_id,
            digest_of(vault, credentials.client_secret),
            mode,
            "admin" if owner else role,
            owner,
            list(credentials.scopes),
        )
        shown = {"id": id_, "client_id": credentials.client_id, "role": role, "scopes": credentials.scopes}
        await record(
            connection,
            operator,
            OperatorAct("create_client", "client", id_, None, shown, (tenant_id, mode == "live")),
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


async def revoke_client(dsn: str, client_id: str, operator: str) -> bool:
    """Revoke a client for ever, also the last owner: it gets no more tokens, and those it has become invalid
    within a second. Returns whether its tenant still has an owner in the client's mode, or has had none.
    Raises ClientError when the client does not exist or is already revoked."""
    connection = await connect_operator(dsn)
    try:
        async with connection.transaction():
            row = await connection.fetchrow(_REVOKE, client_id)
            if row is None:
                raise ClientError("no active client has this id")
            of = row["tenant_id"], row["live"]
            states = {"status": "active"}, {"status": "revoked"}
            await record(connection, operator, OperatorAct("revoke_client", "client", row["id"], *states, of))
            return not row["owner"] or await connection.fetchval(_OWNERS, *of) > 0
    finally:
        await connection.close(timeout=10)


async def ensure_demo_clients(dsn: str, vault: Vault, path: Path) -> list[ClientCredentials]:
    """The demo clients of an installation, created on its first start and kept in ``path`` with their
    secrets.

    Those that the database does not know, or that ``path`` lacks, are created: the clients in ``run.json``
    always work.
    """
    connection = await connect_operator(dsn, command_seconds=30)
    try:
        stored = {(each.name, each.mode, each.role): each for each in read_clients(path)}
        known = await connection.fetch(
            "SELECT client_id FROM clients WHERE client_id = ANY($1) AND revoked_at IS NULL",
            [credentials.client_id for credentials in stored.values()],
        )
        active = {row["client_id"] for row in known}
        made = [
            found
            if (found := stored.get((tenant, mode, role))) is not None and found.client_id in active
            else await create_client(connection, vault, tenant=tenant, mode=mode, role=role, operator=START)
            for tenant, mode, role in DEMO_CLIENTS
        ]
    finally:
        await connection.close(timeout=10)
    if made != list(stored.values()):
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
