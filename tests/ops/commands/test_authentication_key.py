"""``stanchion keys authentication``: a programme's values are verified under its current and its previous
key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from actors.ids import new_id
from actors.network.authentication_keys import AuthenticationKeys
from actors.network.database import NetworkDbConnection
from actors.settings import Settings
from actors.vault import Vault
from ops.cli import app
from ops.commands.authentication_key import AuthenticationKeyError, read_key, remove_key, set_key
from ops.commands.keys import reseal
from ops.expected_failures import EXPECTED_FAILURES
from tests.support.api.stack import Installation, installation

FIRST, SECOND, THIRD = (bytes([number]) * 32 for number in (1, 2, 3))


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Installation]:
    async with installation(settings, vault) as started:
        yield started


@pytest.fixture
async def programme_id(running: Installation) -> str:
    return str((await (await running.caller()).programme())["id"])


async def stanchion(settings: Settings, *arguments: str, given: str | None = None) -> Result:
    """Run a command on the installation of ``settings``."""
    environment = {"STANCHION_DATABASE_URL": settings.database_dsn, "STANCHION_REDIS_URL": settings.redis_dsn}
    command = ["keys", "authentication", *arguments, "--var", str(settings.var_dir)]
    return await asyncio.to_thread(lambda: CliRunner().invoke(app, command, env=environment, input=given))


async def known(settings: Settings, vault: Vault, programme_id: str) -> tuple[bytes, ...]:
    """The keys that an edge reads."""
    db = NetworkDbConnection(settings.database_dsn, "test-keys")
    try:
        keys = AuthenticationKeys(db.fetch, vault)
        await keys.refresh()
        return keys.of(programme_id)
    finally:
        db.close()


async def test_new_key_keeps_its_predecessor_until_the_next_change(
    programme_id: str, settings: Settings, vault: Vault
) -> None:
    dsn = settings.database_dsn
    for key, expected in ((FIRST, (FIRST,)), (SECOND, (SECOND, FIRST)), (THIRD, (THIRD, SECOND))):
        await set_key(dsn, vault, programme_id.upper(), key)
        assert await known(settings, vault, programme_id) == expected
    await remove_key(dsn, programme_id)
    assert await known(settings, vault, programme_id) == ()
    with pytest.raises(AuthenticationKeyError):
        await remove_key(dsn, programme_id)


async def test_keys_are_resealed_after_a_rotation(programme_id: str, settings: Settings) -> None:
    old, new = bytes([8]) * 32, bytes([9]) * 32
    for key in (FIRST, SECOND):
        await set_key(settings.database_dsn, Vault((old,)), programme_id, key)
    rotated = Vault((new, old))
    counts = dict(await reseal(settings.database_dsn, rotated, "Ada"))
    assert (counts["authentication keys"], counts["previous authentication keys"]) == (1, 1)
    assert await known(settings, rotated, programme_id) == (SECOND, FIRST)


async def test_command_prints_a_generated_key_once(
    programme_id: str, settings: Settings, vault: Vault, tmp_path: Path
) -> None:
    printed = await stanchion(settings, programme_id)
    assert printed.exit_code == 0, printed.output
    assert await known(settings, vault, programme_id) == (bytes.fromhex(printed.stdout.strip()),)
    path = tmp_path / "key.hex"
    path.write_text(FIRST.hex() + "\n")
    assert (await stanchion(settings, programme_id, "--file", str(path))).stdout == ""
    assert (await stanchion(settings, programme_id, "--file", "-", given=SECOND.hex().upper())).exit_code == 0
    assert await known(settings, vault, programme_id) == (SECOND, FIRST)
    assert (await stanchion(settings, programme_id, "--file", str(path), "--remove")).exit_code == 2
    assert (await stanchion(settings, programme_id, "--remove")).exit_code == 0
    assert await known(settings, vault, programme_id) == ()


@pytest.mark.parametrize("text", ["", "garbage", "00" * 31, "00" * 33, "g" * 64])
def test_key_that_is_not_64_digits_is_refused_without_repeating_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "key.hex"
    path.write_text(text)
    with pytest.raises(AuthenticationKeyError) as failure:
        read_key(str(path))
    assert not text or text not in str(failure.value)
    with pytest.raises(AuthenticationKeyError):
        read_key(str(tmp_path / "absent"))
    assert issubclass(AuthenticationKeyError, EXPECTED_FAILURES)


async def test_unknown_programme_is_refused(programme_id: str, settings: Settings, vault: Vault) -> None:
    for wrong in (new_id(1), "4111111111111111"):
        with pytest.raises(AuthenticationKeyError) as failure:
            await set_key(settings.database_dsn, vault, wrong, FIRST)
        assert wrong not in str(failure.value)
