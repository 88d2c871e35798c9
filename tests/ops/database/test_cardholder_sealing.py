"""The upgrade from clear to sealed personal data, with both releases running until its end."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from actors.ids import new_id
from actors.settings import Settings
from actors.vault import Vault
from api.people.personal_data import seal_person
from ops.audit import audit
from ops.database import cardholder_sealing
from ops.database.key_check import check_master_key
from ops.database.migrate import FOLDER, MigrationError, load_migrations, migrate, waiting
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, installation

DROP = "cardholder_clear_columns"
ADDRESS = '{"line1":"1 Main St","line2":null,"city":"Cork","postcode":"T12","country":"IE"}'
# Statements of the previous release.
OLD_INSERT = """
    INSERT INTO cardholders (id, tenant_id, live, programme_id, given_name, family_name, email, phone,
                             date_of_birth, address, external_ref, status, created_at, updated_at)
    SELECT $1::uuid, tenant_id, live, id, $2, 'Oldfield', 'old@example.com', '+353861234567',
           '1990-05-17', $3, NULL, 'active', now(), now()
    FROM programmes
"""
OLD_UPDATE = """
    UPDATE cardholders
    SET given_name = $2, family_name = family_name, email = email, phone = phone, address = address,
        date_of_birth = date_of_birth, external_ref = external_ref, status = status, updated_at = now()
    WHERE id = $1::uuid
"""


@pytest.fixture
def before(tmp_path: Path) -> Path:
    """The migrations up to the one that drops the columns in clear."""
    (folder := tmp_path / "migrations").mkdir()
    version = next(each.version for each in load_migrations() if each.name == DROP)
    for path in FOLDER.glob("*.sql"):
        if int(path.name[:4]) < version:
            shutil.copy(path, folder)
    return folder


@pytest.fixture
async def upgrading(settings: Settings, before: Path, vault: Vault, tmp_path: Path) -> Settings:
    """A database that this release and the previous one use together: all but the columns' removal."""
    dsn = settings.database_dsn
    connection = await asyncpg.connect(dsn)
    await connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    await connection.close()
    await migrate(dsn, before, tmp_path / "no functions")
    await migrate(dsn, before_only=True)
    await check_master_key(dsn, vault)
    return settings


@pytest.fixture
async def running(upgrading: Settings, vault: Vault) -> AsyncIterator[Installation]:
    async with installation(upgrading, vault) as started:
        yield started


async def old_cardholder(pool: Any, given_name: str) -> str:
    id_ = new_id()
    await pool.execute(OLD_INSERT, id_, given_name, ADDRESS)
    return id_


async def given_name(acme: Caller, id_: str) -> str | None:
    return str((await acme.get(f"/v1/cardholders/{id_}"))["given_name"])


async def clear(pool: Any, id_: str) -> Any:
    return await pool.fetchrow("SELECT data_key, given_name, phone FROM cardholders WHERE id = $1", id_)


async def test_both_releases_see_each_others_changes(running: Installation) -> None:
    pool, acme = running.services.pool, await running.caller()
    programme = await acme.programme()
    old = await old_cardholder(pool, "Olga")
    shown = await acme.get(f"/v1/cardholders/{old}")
    assert (shown["given_name"], shown["email"], shown["date_of_birth"], shown["address"]["city"]) == (
        *("Olga", "old@example.com", "1990-05-17", "Cork"),
    )
    new = (await acme.cardholder(programme, given_name="Nora", phone="+353861234567"))["id"]
    row = await clear(pool, new)
    assert (row["data_key"] is None, row["given_name"], row["phone"]) == (False, "Nora", "+353861234567")
    # The previous release changes only the columns in clear.
    await pool.execute(OLD_UPDATE, new, "Nadia")
    assert (await clear(pool, new))["data_key"] is None
    assert await given_name(acme, new) == "Nadia"
    for id_, name in ((old, "Oda"), (new, "Nell")):
        await acme.patch(f"/v1/cardholders/{id_}", {"given_name": name})
        row = await clear(pool, id_)
        assert (row["data_key"] is None, row["given_name"]) == (False, name)
    await pool.execute("UPDATE cardholders SET status = 'blocked', updated_at = now() WHERE id = $1", new)
    assert (await clear(pool, new))["data_key"] is not None


async def test_release_before_cannot_fill_an_erased_row(running: Installation) -> None:
    pool, acme = running.services.pool, await running.caller()
    holder = await acme.cardholder(await acme.programme())
    assert (await acme.send("DELETE", f"/v1/cardholders/{holder['id']}")).status_code == 204
    await pool.execute(OLD_UPDATE, holder["id"], "Zoe")
    assert (await clear(pool, holder["id"]))["given_name"] == ""
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["given_name"] is None


async def test_upgrade_seals_every_row_and_drops_the_columns_under_a_running_api(
    running: Installation, upgrading: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cardholder_sealing, "BATCH", 2)
    pool, dsn, acme = running.services.pool, upgrading.database_dsn, await running.caller()
    programme = await acme.programme()
    olds = [await old_cardholder(pool, f"Old{number}") for number in range(5)]
    new, gone = [await acme.cardholder(programme, given_name=name) for name in ("Nora", "Gone")]
    assert (await acme.send("DELETE", f"/v1/cardholders/{gone['id']}")).status_code == 204
    before = (await acme.get("/v1/cardholders"))["data"]
    assert [finding for finding in await audit(dsn, vault) if finding.broken] == []
    assert await migrate(dsn, before_only=True) == []
    assert DROP in await waiting(dsn)
    with pytest.raises(MigrationError, match="give the master key"):
        await migrate(dsn)
    with pytest.raises(MigrationError, match="not the one that this database was created with"):
        await migrate(dsn, keys=lambda: Vault((bytes(32),)))
    assert (await clear(pool, olds[0]))["data_key"] is None

    assert DROP in await migrate(dsn, keys=lambda: vault)
    assert await pool.fetchval("SELECT count(*) FROM cardholders WHERE data_key IS NULL") == 1
    columns = "SELECT attname FROM pg_attribute WHERE attrelid = 'cardholders'::regclass AND NOT attisdropped"
    assert not {row["attname"] for row in await pool.fetch(columns)} & {"given_name", "email", "phone"}
    assert (await acme.get("/v1/cardholders"))["data"] == before
    for id_ in (olds[3], new["id"]):
        await acme.patch(f"/v1/cardholders/{id_}", {"given_name": "Late"})
        assert await given_name(acme, id_) == "Late"
    assert await given_name(acme, (await acme.cardholder(programme, given_name="Last"))["id"]) == "Last"
    assert [finding for finding in await audit(dsn, vault) if finding.broken] == []


async def test_interrupted_sealing_continues(
    running: Installation, upgrading: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cardholder_sealing, "BATCH", 1)
    pool, dsn, acme = running.services.pool, upgrading.database_dsn, await running.caller()
    await acme.programme()
    olds = [await old_cardholder(pool, f"Old{number}") for number in range(3)]
    done: list[Any] = []

    def killed(*arguments: Any) -> Any:
        if done:
            raise OSError("killed")
        done.append(arguments)
        return seal_person(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(cardholder_sealing, "seal_person", killed)
        with pytest.raises(MigrationError, match=rf"{DROP} cannot be applied: killed"):
            await migrate(dsn, keys=lambda: vault)
    assert await pool.fetchval("SELECT count(*) FROM cardholders WHERE data_key IS NOT NULL") == 1
    assert [await given_name(acme, id_) for id_ in olds] == ["Old0", "Old1", "Old2"]
    assert await cardholder_sealing.seal_cardholders(dsn, lambda: vault) == 2
    assert await cardholder_sealing.seal_cardholders(dsn, lambda: vault) == 0
    assert DROP in await migrate(dsn, keys=lambda: vault)
    assert [await given_name(acme, id_) for id_ in olds] == ["Old0", "Old1", "Old2"]


async def test_row_of_a_late_process_stops_the_drop(upgrading: Settings, running: Installation) -> None:
    """If a process of the previous release adds a row after the sealing, the whole file is refused."""
    pool, acme = running.services.pool, await running.caller()
    await acme.programme()
    await old_cardholder(pool, "Olga")
    sql = next(each.sql for each in load_migrations() if each.name == DROP)
    with pytest.raises(asyncpg.PostgresError, match="not sealed yet"):
        async with pool.acquire() as connection, connection.transaction():
            await connection.execute(sql)
