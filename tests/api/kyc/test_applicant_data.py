"""Applicants' data: stored sealed, read for one purpose with an access log, erased with their data keys."""

from __future__ import annotations

from typing import Any

import asyncpg
import pytest

from actors.vault import Vault, VaultError
from api.kyc import applicant_data
from api.kyc.applicant_data import CustodyError
from engine.kyc.flows import PURPOSE_OF, PURPOSES
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, DOCUMENT, ZONE, begin, submit
from tests.support.api.stack import Installation

READER = "a reader in a test"


async def held(running: Installation, acme: Caller) -> str:
    """The id of a check with every value submitted."""
    check = await begin(acme, "full")
    await submit(acme, check, BASIC | DOCUMENT | {"document_mrz": ZONE})
    return str(check["id"])


async def read(running: Installation, check_id: str, fields: list[str], purpose: Any) -> dict[str, bytes]:
    services = running.services
    async with services.pool.acquire() as connection:
        return await applicant_data.read(
            connection,
            services.vault,
            check_id,
            fields,
            purpose=purpose,
            reader=READER,
            now_ms=services.clock.now_ms(),
        )


async def accesses(running: Installation, check_id: str) -> list[tuple[str, str, bool]]:
    rows = await running.services.pool.fetch(
        "SELECT field, purpose, granted FROM kyc_accesses WHERE check_id = $1 AND reader = $2 ORDER BY id",
        check_id,
        READER,
    )
    return [(row["field"], row["purpose"], row["granted"]) for row in rows]


async def test_check_row_holds_tokens_only(running: Installation, acme: Caller) -> None:
    check_id = await held(running, acme)
    row = await running.services.pool.fetchrow("SELECT * FROM kyc_checks WHERE id = $1", check_id)
    assert row is not None
    shown = str(dict(row))
    given = BASIC | DOCUMENT | {"document_mrz": ZONE}
    assert not [
        value
        for name, value in given.items()
        if value in shown and name != "document_type" and len(value) > 2
    ]
    assert shown.count("kyv_") == len(given) - 1


async def test_read_for_its_purpose_is_granted_and_logged(running: Installation, acme: Caller) -> None:
    check_id = await held(running, acme)
    values = await read(running, check_id, ["family_name", "nationality"], "identity_verification")
    assert values == {"family_name": b"Canarybird", "nationality": b"IE"}
    assert sorted(await accesses(running, check_id)) == [
        ("family_name", "identity_verification", True),
        ("nationality", "identity_verification", True),
    ]


@pytest.mark.parametrize("purpose", [purpose for purpose in PURPOSES if purpose != "identity_verification"])
async def test_read_for_another_purpose_is_refused_and_logged(
    running: Installation, acme: Caller, purpose: str
) -> None:
    check_id = await held(running, acme)
    with pytest.raises(CustodyError) as failure:
        await read(running, check_id, ["family_name"], purpose)
    assert "Canarybird" not in str(failure.value)
    assert await accesses(running, check_id) == [("family_name", purpose, False)]


async def test_data_key_of_another_purpose_does_not_decrypt(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller that bypasses the purpose check still gets the data key of the wrong purpose."""
    check_id = await held(running, acme)
    for purpose in ("address_verification", "document_verification"):
        monkeypatch.setitem(PURPOSE_OF, "family_name", purpose)
        with pytest.raises(VaultError):
            await read(running, check_id, ["family_name"], purpose)


async def test_moved_ciphertext_or_key_does_not_decrypt(running: Installation, acme: Caller) -> None:
    """Ciphertext is bound to its check, field and token; a wrapped key is bound to its check."""
    check_id, other = await held(running, acme), await held(running, acme)
    pool = running.services.pool
    given, family = ("SELECT sealed FROM kyc_values WHERE check_id = $1 AND field = $2",) * 2
    moved: bytes = await pool.fetchval(given, check_id, "given_name")
    put = "UPDATE kyc_values SET sealed = $3 WHERE check_id = $1 AND field = $2"
    await pool.execute(put, check_id, "family_name", moved)
    with pytest.raises(VaultError):
        await read(running, check_id, ["family_name"], "identity_verification")
    await pool.execute(put, other, "given_name", moved)
    with pytest.raises(VaultError):
        await read(running, other, ["given_name"], "identity_verification")
    assert await pool.fetchval(family, check_id, "given_name") == moved
    await pool.execute(
        "UPDATE kyc_data_keys SET wrapped ="
        " (SELECT wrapped FROM kyc_data_keys WHERE check_id = $1 AND purpose = $3)"
        " WHERE check_id = $2 AND purpose = $3",
        check_id,
        other,
        "identity_verification",
    )
    with pytest.raises(VaultError):
        await read(running, other, ["family_name"], "identity_verification")


async def test_each_check_and_purpose_has_its_own_data_key(running: Installation, acme: Caller) -> None:
    ids = [await held(running, acme), await held(running, acme)]
    rows = await running.services.pool.fetch(
        "SELECT check_id::text, purpose, wrapped FROM kyc_data_keys WHERE check_id = ANY ($1::uuid[])", ids
    )
    data = {purpose for field, purpose in PURPOSE_OF.items() if field not in ("document_evidence", "selfie")}
    assert {(row["check_id"], row["purpose"]) for row in rows} == {
        (id_, name) for id_ in ids for name in data
    }
    assert len({row["wrapped"] for row in rows}) == len(rows)


async def test_destroyed_values_cannot_be_read_even_from_restored_ciphertext(
    running: Installation, acme: Caller
) -> None:
    check_id = await held(running, acme)
    services = running.services
    kept = await services.pool.fetch("SELECT * FROM kyc_values WHERE check_id = $1", check_id)
    async with services.pool.acquire() as connection:
        assert await applicant_data.destroy(connection, check_id, services.clock.now_ms()) == 3
        assert await applicant_data.destroy(connection, check_id, services.clock.now_ms()) == 0
    assert await services.pool.fetchval("SELECT count(*) FROM kyc_values WHERE check_id = $1", check_id) == 0
    # Ciphertext restored from a backup cannot be decrypted: its data key is gone.
    for row in kept:
        await services.pool.execute("INSERT INTO kyc_values VALUES ($1, $2, $3, $4, $5, $6)", *row.values())
    for purpose in PURPOSES:
        fields = [field for field, of in PURPOSE_OF.items() if of == purpose and field in BASIC | DOCUMENT]
        if fields:
            with pytest.raises(CustodyError):
                await read(running, check_id, fields, purpose)
    assert {granted for _, _, granted in await accesses(running, check_id)} == {False}


async def test_access_log_is_append_only(running: Installation, acme: Caller) -> None:
    check_id = await held(running, acme)
    await read(running, check_id, ["family_name"], "identity_verification")
    for statement in ("UPDATE kyc_accesses SET granted = false", "DELETE FROM kyc_accesses"):
        with pytest.raises(asyncpg.RaiseError, match="append-only"):
            await running.services.pool.execute(statement)


async def test_rewrap_needs_the_right_master_key_and_purpose(running: Installation, acme: Caller) -> None:
    check_id = await held(running, acme)
    wrapped: bytes = await running.services.pool.fetchval(
        "SELECT wrapped FROM kyc_data_keys WHERE check_id = $1 AND purpose = 'identity_verification'",
        check_id,
    )
    vault = running.services.vault
    assert applicant_data.rewrapped(vault, check_id, "identity_verification", wrapped) is None
    with pytest.raises(VaultError):
        applicant_data.rewrapped(Vault((bytes(32),)), check_id, "identity_verification", wrapped)
    with pytest.raises(VaultError):
        applicant_data.rewrapped(vault, check_id, "address_verification", wrapped)
