"""The audit opens the personal data of every cardholder that is not erased."""

from __future__ import annotations

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.audit import Finding, audit
from ops.audit.cardholders import READABLE
from tests.conftest import execute
from tests.support.api.stack import installation

SWAPPED = """
    UPDATE cardholders r SET {column} = o.{column} FROM cardholders o
    WHERE r.given_name_sealed <> o.given_name_sealed AND o.erased_at IS NULL AND r.erased_at IS NULL
"""


@pytest.fixture
async def holders(settings: Settings, vault: Vault) -> list[str]:
    """Two cardholders; a third one is erased."""
    async with installation(settings, vault) as running:
        acme = await running.caller()
        programme = await acme.programme()
        first, second, erased = [await acme.cardholder(programme, given_name=name) for name in "ABC"]
        await acme.send("DELETE", f"/v1/cardholders/{erased['id']}")
    return [first["id"], second["id"]]


async def readable(settings: Settings, vault: Vault) -> Finding:
    return next(each for each in await audit(settings.database_dsn, vault) if each.promise == READABLE)


async def test_sealed_values_can_be_opened(settings: Settings, vault: Vault, holders: list[str]) -> None:
    assert await readable(settings, vault) == Finding(READABLE, 2, 0, ())
    lost = await readable(settings, Vault((bytes(32),)))
    assert (lost.subjects, lost.broken, set(lost.examples)) == (2, 2, set(holders))
    assert READABLE not in [each.promise for each in await audit(settings.database_dsn)]


@pytest.mark.parametrize("column", ["data_key", "given_name_sealed", "email_digest"])
async def test_value_of_another_cardholder_is_found(
    settings: Settings, vault: Vault, holders: list[str], column: str
) -> None:
    change = {"email_digest": "UPDATE cardholders SET email_digest = '\\x00' WHERE erased_at IS NULL"}
    execute(settings.database_dsn, change.get(column, SWAPPED.format(column=column)))
    found = await readable(settings, vault)
    assert (found.broken, set(found.examples)) == (2, set(holders))
