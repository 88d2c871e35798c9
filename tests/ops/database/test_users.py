"""Users and sign-in links from the command line."""

from __future__ import annotations

import asyncpg
import pytest

from actors.settings import Settings
from actors.vault import Vault
from api.users.links import find_link
from ops.database.local_owner import LOCAL_EMAIL
from ops.database.users import LOCAL_OWNER, NewUser, UserError, create_user, sign_in_link

ADA = NewUser("acme", "Ada@example.com", "Ada Lovelace")


async def acts(settings: Settings) -> list[tuple[str, str]]:
    connection = await asyncpg.connect(settings.database_dsn)
    try:
        rows = await connection.fetch(
            "SELECT act, actor FROM audit_log WHERE object_kind = 'user' ORDER BY id"
        )
        return [(row["act"], row["actor"]) for row in rows]
    finally:
        await connection.close()


async def test_local_owner_is_created_once_and_gets_links(settings: Settings, vault: Vault) -> None:
    dsn = settings.database_dsn
    for _ in range(2):
        link = await sign_in_link(dsn, vault, LOCAL_EMAIL, "ann", create=LOCAL_OWNER)
    connection = await asyncpg.connect(dsn)
    try:
        user = await find_link(connection, vault, link.path.rpartition("/")[2])
        assert user is not None
        assert (user.email, user.purpose) == (LOCAL_EMAIL, "sign_in")
        assert await connection.fetchval("SELECT count(*) FROM users") == 1
        assert await connection.fetchval("SELECT count(*) FROM sign_in_links") == 1
        await connection.execute("UPDATE users SET disabled_at = now()")
    finally:
        await connection.close()
    assert await acts(settings) == [("create_user", "ann"), *[("create_sign_in_link", "ann")] * 2]
    with pytest.raises(UserError, match="disabled"):
        await sign_in_link(dsn, vault, LOCAL_EMAIL, "ann", create=LOCAL_OWNER)


async def test_first_owner_of_a_tenant_is_invited(settings: Settings, vault: Vault) -> None:
    link = await create_user(settings.database_dsn, vault, ADA, "ann")
    connection = await asyncpg.connect(settings.database_dsn)
    try:
        user = await find_link(connection, vault, link.path.rpartition("/")[2])
    finally:
        await connection.close()
    assert user is not None
    assert (user.email, user.purpose) == ("ada@example.com", "invitation")
    with pytest.raises(UserError, match="belongs to a user"):
        await create_user(settings.database_dsn, vault, ADA, "ann")
    with pytest.raises(UserError, match="no user"):
        await sign_in_link(settings.database_dsn, vault, "grace@example.com", "ann")
    assert await acts(settings) == [("create_user", "ann")]


@pytest.mark.parametrize(
    "user",
    [
        ADA._replace(tenant=" "),
        ADA._replace(name="\n"),
        ADA._replace(email="nobody"),
        ADA._replace(email="a b@example.com"),
        ADA._replace(role="root"),
        ADA._replace(modes=()),
        ADA._replace(modes=("sandbox",)),
    ],
)
async def test_unfit_user_is_refused(vault: Vault, user: NewUser) -> None:
    with pytest.raises(UserError):
        await create_user("postgresql://nowhere.invalid/x", vault, user, "ann")
