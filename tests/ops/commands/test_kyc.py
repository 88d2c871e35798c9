"""``stanchion kyc``: erasure, recorded reading, and data keys under a new master key."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from actors.ids import new_id
from actors.settings import Settings
from actors.vault import Vault
from api.vision.in_process import InProcessVerification
from ops.cli import app
from ops.commands.kyc import KycError, erase, read, rewrap, write_pictures
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, DOCUMENT, applicant, begin, submit
from tests.support.api.stack import Installation, installation
from tests.support.api.vision.applicant import PICTURE, open_session

PURPOSE = "identity_verification"


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Installation]:
    async with installation(settings, vault) as started:
        yield started


@pytest.fixture
async def acme(running: Installation) -> Caller:
    return await running.caller()


async def stanchion(settings: Settings, *arguments: str) -> Result:
    """Run a command on the installation of ``settings``."""
    environment = {"STANCHION_DATABASE_URL": settings.database_dsn, "STANCHION_REDIS_URL": settings.redis_dsn}
    command = ["kyc", *arguments, "--var", str(settings.var_dir)]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, command, env=environment))


async def values_of(running: Installation, check: Any) -> tuple[int, int]:
    """The numbers of values in custody and of undestroyed keys of a check."""
    values = "SELECT count(*) FROM kyc_values WHERE check_id = $1"
    keys = "SELECT count(*) FROM kyc_data_keys WHERE check_id = $1 AND wrapped IS NOT NULL"
    pool = running.services.pool
    return await pool.fetchval(values, check["id"]), await pool.fetchval(keys, check["id"])


async def test_erasing_a_cardholder(running: Installation, acme: Caller, settings: Settings) -> None:
    holder, other = await applicant(acme), await applicant(acme)
    passed = await submit(acme, await begin(acme, "basic", holder), BASIC)
    waiting = await submit(acme, await begin(acme, "basic", holder), BASIC | {"family_name": "REVIEW"})
    collecting = await begin(acme, "full", holder)
    session = await open_session(acme, collecting)
    untouched = await submit(acme, await begin(acme, "basic", other), BASIC)
    dsn = settings.database_dsn
    assert await erase(dsn, "ann", cardholder_id=holder["id"]) == 3
    assert await erase(dsn, "ann", cardholder_id=holder["id"]) == 0
    states = {}
    for check in (passed, waiting, collecting):
        assert await values_of(running, check) == (0, 0)
        states[check["id"]] = (await acme.get(f"/v1/kyc/checks/{check['id']}"))["state"]
        texts, pictures = await read(
            dsn, running.services.vault, "ann", check_id=check["id"], purpose=PURPOSE, reader="Ada"
        )
        assert (texts, pictures) == ({}, {})
    assert list(states.values()) == ["passed", "failed", "expired"]
    # No check is open any more; the newest verdict is that of the check in review.
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["kyc_state"] == "expired"
    answer = await InProcessVerification(running.services).describe(session["capture_session_token"])
    assert answer.status == 404
    assert await values_of(running, untouched) == (7, 2)
    assert await erase(dsn, "ann", check_id=untouched["id"]) == 1
    assert await values_of(running, untouched) == (0, 0)
    for wrong in (
        {},
        {"check_id": "x"},
        {"cardholder_id": new_id()},
        {"check_id": "a", "cardholder_id": "b"},
    ):
        with pytest.raises(KycError):
            await erase(dsn, "ann", **wrong)


async def test_reading_is_recorded(
    running: Installation, acme: Caller, settings: Settings, tmp_path: Path
) -> None:
    check = await submit(acme, await begin(acme, "full"), BASIC | DOCUMENT)
    session = await open_session(acme, check)
    component = InProcessVerification(running.services)
    assert (await component.attach(session["capture_session_token"], "selfie", PICTURE)).status == 200
    dsn, vault = settings.database_dsn, running.services.vault
    texts, pictures = await read(
        dsn, vault, "ann", check_id=check["id"], purpose="document_verification", reader="Ada Byron"
    )
    assert (texts["document_number"], pictures) == (DOCUMENT["document_number"], {})
    texts, pictures = await read(
        dsn, vault, "ann", check_id=check["id"], purpose="evidence_review", reader="Ada"
    )
    assert (texts, pictures) == ({}, {"selfie": PICTURE})
    (path,) = write_pictures(pictures, tmp_path / "out")
    assert (path.name, path.read_bytes(), path.stat().st_mode & 0o777) == ("selfie.png", PICTURE, 0o600)
    with pytest.raises(KycError, match="already exists"):
        write_pictures(pictures, tmp_path / "out")
    rows = await running.services.pool.fetch(
        "SELECT reader, purpose FROM kyc_accesses WHERE check_id = $1 AND granted ORDER BY id", check["id"]
    )
    assert {tuple(row) for row in rows} == {
        ("operator Ada Byron", "document_verification"),
        ("operator Ada", "evidence_review"),
    }
    for wrong in ({"purpose": "curiosity"}, {"reader": ""}, {"reader": "a\nb"}, {"check_id": new_id()}):
        with pytest.raises(KycError):
            await read(
                dsn, vault, "ann", **{"check_id": check["id"], "purpose": PURPOSE, "reader": "Ada"} | wrong
            )


async def test_data_keys_are_sealed_under_a_new_master_key(
    running: Installation, acme: Caller, settings: Settings
) -> None:
    check = await submit(acme, await begin(acme), BASIC)
    old = base64.b64decode((settings.var_dir / "keys" / "master.key").read_bytes())
    dsn, new = settings.database_dsn, bytes(range(32))
    assert await rewrap(dsn, running.services.vault, "ann") == 0
    assert await rewrap(dsn, Vault((new, old)), "ann") == 2
    assert await rewrap(dsn, Vault((new, old)), "ann") == 0
    texts, _ = await read(dsn, Vault((new,)), "ann", check_id=check["id"], purpose=PURPOSE, reader="Ada")
    assert texts["family_name"] == BASIC["family_name"]


async def test_commands_read_and_erase(running: Installation, acme: Caller, settings: Settings) -> None:
    check = await submit(acme, await begin(acme), BASIC)
    named = ("--check", check["id"])
    done = await stanchion(settings, "read", *named, "--purpose", PURPOSE, "--reader", "Ada")
    assert (done.exit_code, json.loads(done.stdout)["given_name"]) == (0, BASIC["given_name"])
    assert (await stanchion(settings, "rewrap")).stdout == "resealed 0\n"
    assert (await stanchion(settings, "erase", *named)).stdout == "erased 1\n"
    assert (await stanchion(settings, "erase", *named)).stdout == "nothing to erase\n"
    assert isinstance((await stanchion(settings, "erase")).exception, KycError)
    assert KycError in EXPECTED_FAILURES
