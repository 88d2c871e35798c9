"""``stanchion audit-log``: acts of clients and of operators, for people and for programs."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import asyncpg
import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.commands.audit_log import acts, as_json, as_line
from ops.commands.keys import reseal
from ops.database.clients import create_client, revoke_client
from ops.database.operator_acts import NAME_CHARS_MAX, on_installation, operator_of, record_alone


async def rows_of(dsn: str, **filters: object) -> list[dict[str, object]]:
    return [row async for row in acts(dsn, **filters)]  # type: ignore[arg-type]


@pytest.fixture
async def client_id(database_url: str, vault: Vault) -> str:
    """A client of the tenant acme, created by the operator ann."""
    connection = await asyncpg.connect(database_url)
    try:
        made = await create_client(
            connection, vault, tenant="acme", mode="live", role="owner", operator="ann"
        )
    finally:
        await connection.close()
    return made.client_id


async def test_acts_of_operators_are_listed_newest_first(database_url: str, client_id: str) -> None:
    assert await revoke_client(database_url, client_id, "bob") is False
    await record_alone(database_url, "bob", on_installation("migrate_database", {"applied": ["a"]}))
    newest, revoked, created = await rows_of(database_url)
    assert (newest["tenant"], newest["mode"], newest["act"]) == (None, None, "migrate_database")
    assert [(each["act"], each["actor"], each["tenant"], each["mode"]) for each in (revoked, created)] == [
        ("revoke_client", "bob", "acme", "live"),
        ("create_client", "ann", "acme", "live"),
    ]
    assert revoked["object_id"] == created["object_id"]
    assert client_id in str(created["after"])
    assert "sk_" not in str(created)


async def test_revoking_one_of_two_owners_leaves_an_owner(
    database_url: str, vault: Vault, client_id: str
) -> None:
    connection = await asyncpg.connect(database_url)
    await create_client(connection, vault, tenant="acme", mode="live", role="owner", operator="ann")
    await connection.close()
    assert await revoke_client(database_url, client_id, "bob") is True


async def test_filters(database_url: str, client_id: str) -> None:
    await revoke_client(database_url, client_id, "bob")
    await record_alone(database_url, "bob", on_installation("drain_node", {"node": None}))
    assert [each["act"] for each in await rows_of(database_url, tenant="acme")] == [
        "revoke_client",
        "create_client",
    ]
    assert len(await rows_of(database_url, act="create_client")) == 1
    assert await rows_of(database_url, tenant="unknown") == []
    now = datetime.now(UTC)
    assert len(await rows_of(database_url, since=now - timedelta(hours=1))) == 3
    assert await rows_of(database_url, since=now + timedelta(hours=1)) == []


async def test_act_of_several_transactions_has_a_row_at_its_begin_and_at_its_end(
    database_url: str, vault: Vault
) -> None:
    await reseal(database_url, vault, "ann")
    phases = [
        (row["act"], json.loads(str(row["after"]))["phase"]) for row in (await rows_of(database_url))[::-1]
    ]
    assert phases == [
        ("reseal_secrets", "begun"),
        ("reseal_secrets", "done"),
        ("rewrap_kyc_keys", "begun"),
        ("rewrap_kyc_keys", "done"),
    ]


async def test_row_is_shown_as_a_line_and_as_json(database_url: str, client_id: str) -> None:
    (row,) = await rows_of(database_url)
    line = as_line(row)
    assert "  acme live  operator ann  create_client  client " in line
    assert "\n" not in line
    shown = json.loads(as_json(row))
    assert (shown["after"]["client_id"], shown["before"]) == (client_id, None)
    assert shown["recorded_at"].endswith("Z")


@pytest.mark.parametrize(
    ("setting", "sudo", "expected"),
    [
        ("ann", "bob", "ann"),
        (None, "bob", "bob"),
        (None, "b\nob", "bob"),
        (None, "b" * 200, "b" * NAME_CHARS_MAX),
        (None, "\x1b", "unknown"),
    ],
)
def test_operator_is_named_by_the_setting_or_the_login(
    monkeypatch: pytest.MonkeyPatch, setting: str | None, sudo: str, expected: str
) -> None:
    monkeypatch.setenv("SUDO_USER", sudo)
    assert operator_of(Settings.load(operator=setting)) == expected


def test_user_without_a_name_is_named_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nameless() -> str:
        raise KeyError("uid not found")

    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr("ops.database.operator_acts.getpass.getuser", nameless)
    assert operator_of(Settings.load()).startswith("uid ")
