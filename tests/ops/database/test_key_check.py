"""Nothing is served unless the master keys are those of the database."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from actors.vault import Vault
from ops.database.key_check import KeyCheckError, check_master_key

ROOT = Path(__file__).parents[3]
FIRST, SECOND, THIRD = (bytes((number,)) * 32 for number in (1, 2, 3))
REFUSED = (
    "the master key is not the one that this database was created with: restore that key in"
    " STANCHION_MASTER_KEY, or in keys/master.key of the state folder"
)


async def refused(database_url: str, *keys: bytes) -> bool:
    try:
        await check_master_key(database_url, Vault(keys))
    except KeyCheckError as error:
        return str(error) == REFUSED
    return False


async def test_an_empty_database_adopts_the_keys_and_refuses_others_later(database_url: str) -> None:
    assert not await refused(database_url, FIRST)
    assert not await refused(database_url, FIRST)
    assert await refused(database_url, SECOND)
    assert not await refused(database_url, FIRST)


async def test_a_rotation_may_add_keys_but_not_remove_used_ones(database_url: str) -> None:
    assert not await refused(database_url, FIRST)
    assert not await refused(database_url, SECOND, FIRST)
    assert await refused(database_url, FIRST)  # a value may already be sealed under the second key
    assert await refused(database_url, FIRST, SECOND)  # look-ups need the oldest key, at the end
    assert await refused(database_url, SECOND)
    assert not await refused(database_url, THIRD, SECOND, FIRST)


async def test_concurrent_first_starts_agree_on_one_key(database_url: str) -> None:
    refusals = await asyncio.gather(*(refused(database_url, key) for key in (FIRST, SECOND, THIRD)))
    assert sorted(refusals) == [False, True, True]


@pytest.mark.parametrize(
    "command", [("up", "--ports", "auto"), ("clients", "create", "--tenant=a", "--mode=test", "--role=user")]
)
def test_a_lost_key_is_one_line(command: tuple[str, ...], var_dir: Path, database_url: str) -> None:
    def stanchion(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ops", *arguments, "--var", str(var_dir)],
            cwd=ROOT,
            env={"STANCHION_DATABASE_URL": database_url, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )

    first = stanchion("clients", "create", "--tenant=a", "--mode=test", "--role=admin")
    assert (first.returncode, first.stderr) == (0, "")
    shutil.rmtree(var_dir / "keys")
    done = stanchion(*command)
    assert (done.returncode, done.stderr) == (1, f"stanchion: {REFUSED}\n")
    assert not (var_dir / "run.json").exists()
