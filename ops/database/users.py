"""Users from the command line: the first owner of a tenant, and links with which people sign in."""

from __future__ import annotations

from typing import Final, NamedTuple

import asyncpg

from actors.ids import new_id
from actors.vault import Vault
from api.users.kind import KIND
from api.users.links import Link, LinkPurpose, create_link
from engine.scopes import MODES, ROLES
from ops.database.clients import TENANT_NAME_CHARACTERS_MAX
from ops.database.local_owner import LOCAL_EMAIL, LOCAL_NAME, LOCAL_TENANT
from ops.database.operator_acts import OperatorAct, record
from ops.database.operator_connection import connect_operator

_TENANT: Final = "INSERT INTO tenants (id, name) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING"
_USER: Final = """
    INSERT INTO users (id, tenant_id, email, name, role, modes, reveal)
    SELECT $1, tenants.id, $3, $4, $5, $6, $7 FROM tenants WHERE tenants.name = $2
    ON CONFLICT (email) DO NOTHING RETURNING tenant_id::text
"""
_FIND: Final = """
    SELECT id::text, tenant_id::text, modes, disabled_at IS NOT NULL AS disabled FROM users WHERE email = $1
"""


class UserError(Exception):
    """A user cannot be created, or cannot sign in. The message is one line."""


class NewUser(NamedTuple):
    """A user to create."""

    tenant: str
    email: str
    name: str
    role: str = "owner"
    modes: tuple[str, ...] = MODES
    reveal: bool = False


LOCAL_OWNER: Final = NewUser(LOCAL_TENANT, LOCAL_EMAIL, LOCAL_NAME, reveal=True)
"""The owner of the demo tenant: whoever operates the installation signs in as it."""


async def create_user(dsn: str, vault: Vault, user: NewUser, operator: str) -> Link:
    """Create a user, and its tenant if that is new; returns the invitation. Raises UserError."""
    _check(user)
    connection = await connect_operator(dsn)
    try:
        async with connection.transaction():
            created = await _insert(connection, user, operator)
            if created is None:
                raise UserError("the e-mail address belongs to a user; print a link with `stanchion sign-in`")
            return await create_link(connection, vault, created, "invitation")
    finally:
        await connection.close(timeout=10)


async def sign_in_link(
    dsn: str, vault: Vault, email: str, operator: str, *, create: NewUser | None = None
) -> Link:
    """A link that signs a user in once; ``create`` is the user if there is none yet. Raises UserError."""
    connection = await connect_operator(dsn)
    try:
        async with connection.transaction():
            if create is not None:
                await _insert(connection, create, operator)
            return await _link(connection, vault, email.strip().lower(), "sign_in", operator)
    finally:
        await connection.close(timeout=10)


async def _insert(connection: asyncpg.Connection[asyncpg.Record], user: NewUser, operator: str) -> str | None:
    """The id of the new user; ``None`` if the address belongs to one."""
    id_ = new_id()
    await connection.execute(_TENANT, new_id(), user.tenant)
    values = (user.email.lower(), user.name, user.role, list(user.modes), user.reveal)
    tenant_id = await connection.fetchval(_USER, id_, user.tenant, *values)
    if tenant_id is None:
        return None
    shown = {"id": id_, "role": user.role, "modes": list(user.modes), "reveal": user.reveal}
    of = (tenant_id, "live" in user.modes)
    await record(connection, operator, OperatorAct("create_user", KIND, id_, None, shown, of))
    return id_


async def _link(
    connection: asyncpg.Connection[asyncpg.Record],
    vault: Vault,
    email: str,
    purpose: LinkPurpose,
    operator: str,
) -> Link:
    row = await connection.fetchrow(_FIND, email)
    if row is None:
        raise UserError("no user has this e-mail address; create one with `stanchion users create`")
    if row["disabled"]:
        raise UserError("the user is disabled; an owner enables it in the console")
    link = await create_link(connection, vault, row["id"], purpose)
    made = {"expires_at": link.expires_at.isoformat()}
    of = (row["tenant_id"], "test" not in row["modes"])
    await record(connection, operator, OperatorAct("create_sign_in_link", KIND, row["id"], None, made, of))
    return link


def _check(user: NewUser) -> None:
    for name in (user.tenant, user.name):
        if not name.strip() or len(name) > TENANT_NAME_CHARACTERS_MAX or not name.isprintable():
            raise UserError(f"a name must have 1 to {TENANT_NAME_CHARACTERS_MAX} printable characters")
    before, at, after = user.email.partition("@")
    if not (before and at and after) or len(user.email) > 254 or any(c.isspace() for c in user.email):
        raise UserError("this is not an e-mail address")
    if user.role not in ROLES:
        raise UserError(f"the role must be one of {', '.join(ROLES)}")
    if not user.modes or not set(user.modes) <= set(MODES):
        raise UserError(f"the modes must be among {', '.join(MODES)}")
