"""Cardholders' personal data: sealed for one row and column, with a keyed hash of the e-mail address."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ids import new_id
from actors.vault import Vault, VaultError
from api.people.personal_data import COLUMNS, FIELDS, People, email_digest, seal_person
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

VAULT = Vault((bytes(range(32)),))
PERSON: dict[str, Any] = {
    "given_name": "Augusta",
    "family_name": "Lovelace",
    "email": "Ada@Example.com",
    "phone": None,
    "date_of_birth": "1990-05-17",
    "address": {"line1": "1 Main St", "line2": None, "city": "Cork", "postcode": "T12", "country": "IE"},
}


def sealed_row(vault: Vault = VAULT, person: dict[str, Any] = PERSON) -> dict[str, Any]:
    id_, tenant = new_id(), new_id()
    columns = dict(zip(COLUMNS, seal_person(vault, tenant, True, id_, person), strict=True))
    return {"id": id_, "tenant_id": tenant, "clear": None, **columns}


def opened(row: Any, vault: Vault = VAULT) -> dict[str, Any]:
    return People(vault).of(row)


def test_sealed_person_decrypts_to_the_same_values() -> None:
    row = sealed_row()
    assert opened(row) == PERSON
    assert row["phone_sealed"] is None
    sealed = [value for value in row.values() if isinstance(value, bytes)]
    assert not any(b"Augusta" in value or b"1 Main St" in value for value in sealed)


@pytest.mark.parametrize("place", ["id", "tenant_id"])
def test_value_of_another_row_or_tenant_does_not_decrypt(place: str) -> None:
    with pytest.raises(VaultError):
        opened(sealed_row() | {place: new_id()})


def test_value_of_another_field_does_not_decrypt() -> None:
    row = sealed_row()
    with pytest.raises(VaultError):
        opened(row | {"given_name_sealed": row["family_name_sealed"]})


def test_another_master_key_does_not_decrypt() -> None:
    with pytest.raises(VaultError):
        opened(sealed_row(), Vault((bytes(32),)))


def test_erased_row_has_no_values() -> None:
    row = sealed_row() | dict.fromkeys(COLUMNS)
    assert opened(row) == dict.fromkeys(FIELDS)


def test_email_digest_depends_on_tenant_mode_and_master_key_and_not_on_case() -> None:
    tenant = new_id()
    digest = email_digest(VAULT, tenant, True, "ada@example.com")
    assert len(digest) == 32
    assert email_digest(VAULT, tenant, True, "ADA@example.COM") == digest
    others = {
        email_digest(VAULT, tenant, False, "ada@example.com"),
        email_digest(VAULT, new_id(), True, "ada@example.com"),
        email_digest(VAULT, tenant, True, "bob@example.com"),
        email_digest(Vault((bytes(32),)), tenant, True, "ada@example.com"),
    }
    assert len(others | {digest}) == 5
    rotated = Vault((bytes(32), bytes(range(32))))
    assert email_digest(rotated, tenant, True, "ada@example.com") == digest


def test_data_key_of_a_cardholder_is_unwrapped_once_for_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    unwrapped = []
    open_key = Vault.data_key

    def counted(vault: Vault, *arguments: Any) -> Any:
        unwrapped.append(arguments)
        return open_key(vault, *arguments)

    monkeypatch.setattr(Vault, "data_key", counted)
    row, people = sealed_row(), People(VAULT)
    for _ in range(100):
        people.of(row, ("given_name",))
    assert len(unwrapped) == 1


async def test_table_stores_no_value_in_clear(running: Installation, acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), **PERSON | {"phone": "+353861234567"})
    row = await running.services.pool.fetchrow("SELECT * FROM cardholders WHERE id = $1", holder["id"])
    assert row is not None
    columns = [value if isinstance(value, bytes) else str(value).encode() for value in row.values()]
    # Each value is long enough not to be found in random bytes, identifiers or times by chance.
    values = (b"Augusta", b"Lovelace", b"xample.com", b"861234567", b"1990-05-17", b"1 Main St")
    assert not [value for value in values if any(value in column for column in columns)]


async def test_change_keeps_the_data_key_and_replaces_the_digest(running: Installation, acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), email="old@example.com")
    statement = "SELECT data_key, email_digest, tenant_id::text FROM cardholders WHERE id = $1"
    before = await running.services.pool.fetchrow(statement, holder["id"])
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"email": "new@example.com"})
    after = await running.services.pool.fetchrow(statement, holder["id"])
    assert before is not None
    assert after is not None
    assert after["data_key"] == before["data_key"]
    vault, tenant = running.services.vault, after["tenant_id"]
    assert before["email_digest"] == email_digest(vault, tenant, False, "old@example.com")
    assert after["email_digest"] == email_digest(vault, tenant, False, "new@example.com")


async def test_list_of_cards_shows_the_names_of_its_cardholders(acme: Caller) -> None:
    programme = await acme.programme()
    product = await acme.product(programme)
    for name in ("Ada", "Bob"):
        await acme.card(product, await acme.cardholder(programme, given_name=name))
    cards = (await acme.get("/v1/cards"))["data"]
    assert [card["cardholder_name"] for card in cards] == ["Bob Lovelace", "Ada Lovelace"]
    ids = ",".join(card["id"] for card in cards)
    assert (await acme.get(f"/v1/cards?ids={ids}"))["data"] == cards


async def test_damaged_data_do_not_prevent_blocking(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    path = f"/v1/cardholders/{card['cardholder_id']}"
    damage = "UPDATE cardholders SET given_name_sealed = family_name_sealed WHERE id = $1"
    await running.services.pool.execute(damage, card["cardholder_id"])
    blocked = await acme.patch(path, {"status": "blocked"})
    assert (blocked["status"], blocked["given_name"], blocked["erased_at"]) == ("blocked", None, None)
    assert (await acme.spend(card, "1.00"))["decline_reason"] == "cardholder_blocked"
    assert (await acme.send("PATCH", path, {"given_name": "Bob"})).status_code == 500
    assert (await acme.send("GET", path)).status_code == 500
    suspended = await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    assert (suspended["state"], suspended["cardholder_name"]) == ("suspended", "")
    assert (await acme.get("/v1/cards"))["data"] == [suspended]
