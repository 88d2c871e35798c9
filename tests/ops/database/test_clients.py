"""Clients from the command line, and the first owners of an upgraded database."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from actors.ids import new_id
from actors.settings import Settings
from actors.vault import Vault
from engine.scopes import REVEAL, default_scopes
from ops.database.clients import ClientError, revoke_client
from ops.database.migrate import FOLDER, load_migrations, migrate
from tests.support.api.stack import installation

SECOND_BY_SECOND = "2026-01-01 00:00:{:02}+00"


async def test_a_revoked_client_gets_no_token(settings: Settings, vault: Vault) -> None:
    async with installation(settings, vault) as running:
        leaked, other = await running.caller(), await running.caller()
        client_id = leaked.credentials.client_id
        await revoke_client(settings.database_dsn, client_id, "ann")
        with pytest.raises(AssertionError, match="invalid-client"):
            await leaked.authenticate()
        await other.authenticate()
        with pytest.raises(ClientError):
            await revoke_client(settings.database_dsn, client_id, "ann")


@pytest.fixture
async def empty_url(database_url: str) -> str:
    """A database without tables."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    return database_url


@pytest.fixture
def folder_before(tmp_path: Path) -> Path:
    """The migrations of the release before owners."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    version = next(each.version for each in load_migrations() if each.name == "owners")
    for path in FOLDER.glob("*.sql"):
        if int(path.name[:4]) < version:
            shutil.copy(path, folder)
    return folder


async def test_oldest_active_admin_of_each_tenant_and_mode_becomes_its_owner(
    empty_url: str, folder_before: Path
) -> None:
    await migrate(empty_url, folder_before, functions=folder_before)
    connection = await asyncpg.connect(empty_url)
    tenants = {name: new_id() for name in ("acme", "users", "gone")}
    clients = [
        ("acme", "user", "test", False),
        ("acme", "admin", "test", True),
        ("acme", "admin", "test", False),
        ("acme", "admin", "test", False),
        ("acme", "admin", "live", False),
        ("users", "user", "test", False),
        ("gone", "admin", "test", True),
    ]
    for name, id_ in tenants.items():
        await connection.execute("INSERT INTO tenants (id, name) VALUES ($1, $2)", id_, name)
    for number, (tenant, role, mode, revoked) in enumerate(clients):
        await connection.execute(
            "INSERT INTO clients (id, tenant_id, client_id, secret_digest, mode, role, scopes, created_at,"
            " revoked_at) VALUES ($1, $2, $3, '', $4, $5, '{cards:read}', $6::text::timestamptz,"
            " CASE WHEN $7 THEN now() END)",
            new_id(),
            tenants[tenant],
            f"cl_{number}",
            mode,
            role,
            SECOND_BY_SECOND.format(number),
            revoked,
        )
    await migrate(empty_url)
    rows: list[Any] = await connection.fetch(
        "SELECT client_id, owner, role, live, scopes FROM clients ORDER BY client_id"
    )
    # Processes of the release before select these columns, and know no role but user and admin.
    assert {row["role"] for row in rows} == {"user", "admin"}
    assert [row["client_id"] for row in rows if row["owner"]] == ["cl_2", "cl_4"]
    assert [row["live"] for row in rows if row["owner"]] == [False, True]
    added = {
        f"{name}:{verb}"
        for name in ("exports", "accounts", "rules", "clients", "users")
        for verb in ("read", "write")
    }
    for row in rows:
        expected = {"cards:read", *added, "audit:read"} if row["owner"] else {"cards:read"}
        assert set(row["scopes"]) == expected
        assert REVEAL not in row["scopes"]
        assert set(row["scopes"]) <= set(default_scopes("owner"))
    await connection.close()
