"""Run the commands of OPERATING.md as printed, on an installation with external PostgreSQL and Redis servers.

The test uses the machine's PostgreSQL programs if they are installed, and those of the wheel otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import httpx2
import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.database.clients import ClientCredentials
from ops.database.key_check import check_master_key
from ops.database.migrate import migrate
from ops.embedded.ports import free_port
from ops.embedded.postgres import EmbeddedPostgres, wheel_bin_dir
from ops.supervision.running_installation import RunningInstallation
from tests.conftest import GIVEN_SERVER, PostgresServer, execute, system_bin_dir
from tests.ops.database.test_key_check import REFUSED
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, installation
from tests.support.integration.snippets import SECONDS_MAX, Snippet, paste
from tests.support.integration.stack import Stack
from tests.support.ops.pages import ROOT, fence, fences, spans

PAGE = "ops/docs/OPERATING.md"
OTHER_KEY = base64.b64encode(b"another" + bytes(25)).decode()
# The handbook's commands name no ports.
ANY_PORTS = {f"STANCHION_{name}_PORT": "0" for name in ("API", "VISION", "ISO8583", "METRICS")}

DUMP, RESTORE = (each.text for each in fences(PAGE) if each.section == "Backup and restore")
ROTATE, CLIENTS = (each.text for each in fences(PAGE) if (each.section, each.language) == ("Keys", "sh"))
UPGRADE = ("stanchion migrate --before", "stanchion migrate")


@dataclass(frozen=True)
class OwnServers:
    """The external servers, and a shell in ``folder`` with their programs and ours."""

    database_url: str
    redis_url: str
    programs: Path | None
    folder: Path

    @property
    def restored(self) -> str:
        """The URL of the restored database."""
        return f"{self.database_url.rpartition('/')[0]}/restored"

    @property
    def variables(self) -> dict[str, str]:
        """The environment of the shell."""
        first = [Path(sys.executable).parent, *([self.programs] if self.programs else [])]
        return {"PATH": os.pathsep.join([*map(str, first), os.environ["PATH"]])}

    @property
    def addresses(self) -> str:
        """The page's lines that name the servers, with the addresses of these servers."""
        lines = fence("ops/docs/SETTINGS.md", "Settings", "sh")
        # `make run` executes the `stanchion up` of the handbook.
        assert lines.endswith("\nmake run\n")
        assert "\n\t@exec $(BIN)/stanchion up\n" in (ROOT / "Makefile").read_text("utf-8")
        lines = lines.removesuffix("make run\n")
        lines = lines.replace("postgresql://user:password@host:5432/name", self.database_url)
        return lines.replace("redis://:password@host:6379/0", self.redis_url)

    async def run(self, script: str) -> None:
        """Run ``script`` in the shell; fail with its output."""
        shell = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", script),
            cwd=self.folder,
            env=self.variables,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await shell.communicate()
        assert shell.returncode == 0, output.decode()


@pytest.fixture
def own(redis_url: str, tmp_path: Path) -> Iterator[OwnServers]:
    """A new server, or separate databases on the given one."""
    if GIVEN_SERVER in os.environ:
        admin, name = os.environ[GIVEN_SERVER], f"stanchion_test_own_{os.getpid()}"
        execute(admin, f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        yield OwnServers(PostgresServer(admin, "").database(name), redis_url, None, tmp_path)
        drop = "DROP DATABASE IF EXISTS {} WITH (FORCE)"
        execute(admin, drop.format(name), drop.format("restored"))
        return
    programs = system_bin_dir() or wheel_bin_dir()
    server = EmbeddedPostgres(tmp_path / "own", bin_dir=programs)
    try:
        yield OwnServers(server.start(), redis_url, programs, tmp_path)
    finally:
        server.stop()


@asynccontextmanager
async def changing(caller: Caller, programme: str) -> AsyncIterator[None]:
    """Change a programme repeatedly until the block ends."""

    async def change() -> None:
        for number in count():
            await caller.patch(f"/v1/programs/{programme}", {"name": f"Name {number}"})

    task = asyncio.create_task(change())
    try:
        yield
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)


async def fill_and_dump(before: Installation, own: OwnServers) -> tuple[Caller, dict[str, str]]:
    """Create a card with a hold and dump the database during changes; return the client and the card."""
    caller = await before.caller()
    card = await caller.funded_card("100.00")
    assert (await caller.spend(card, "42.50"))["decision"] == "approved"
    async with changing(caller, card["programme_id"]):
        await own.run(own.addresses + DUMP)
    return caller, card


def restore_script(own: OwnServers) -> str:
    """The handbook's restore, with one start under another key, which must be refused, before the last
    line."""
    lines = RESTORE.replace("postgresql://.../restored", own.restored)
    assert lines.splitlines()[-1].startswith("stanchion up ")
    begin, _, end = lines.rpartition("stanchion up ")
    refused = f"if STANCHION_MASTER_KEY={OTHER_KEY} stanchion up 2> refused; then exit 9; fi\n"
    return f"set -euo pipefail\n{own.addresses}{begin}{refused}stanchion up {end}"


def key_rotation() -> list[Snippet]:
    """The handbook's key rotation and rolling restart."""
    alone = fence(PAGE, "Rolling restart", "sh").strip()
    assert alone in {line.partition("#")[0].strip() for line in ROTATE.splitlines()}
    shown = fence(PAGE, "Keys", "text").splitlines()
    return [Snippet(PAGE, ROTATE, ("Restarted all processes except the supervisor.", *shown))]


def upgrade_and_new_client(old_client: str) -> list[Snippet]:
    """The commands of an upgrade, and the replacement of a client."""
    assert set(UPGRADE) <= set(spans(PAGE))
    return [
        *(Snippet(PAGE, f"{command}\n", ("nothing to apply",)) for command in UPGRADE),
        Snippet(PAGE, CLIENTS.replace("OLD_CLIENT_ID", old_client), ("revoked",)),
    ]


@pytest.mark.timeout(SECONDS_MAX)
async def test_handbook_commands_with_own_postgresql_and_redis(own: OwnServers, tmp_path: Path) -> None:
    var_dir = tmp_path / "var"
    settings = Settings.load(
        var_dir=var_dir, database_url=own.database_url, redis_url=own.redis_url, iso8583_port=free_port()
    )
    vault = Vault.from_settings(settings)
    await migrate(own.database_url)
    await check_master_key(own.database_url, vault)
    async with installation(settings, vault) as before:
        caller, card = await fill_and_dump(before, own)
    variables = own.variables | ANY_PORTS
    variables |= {"STANCHION_VAR_DIR": str(var_dir), "STANCHION_AUTO_CLEAR_SECONDS": "0"}
    command = ("bash", "-c", f"cd {tmp_path}\n{restore_script(own)}")
    stack = Stack(RunningInstallation(var_dir, variables, command=command))
    stack.start()
    try:
        assert (tmp_path / "refused").read_text() == f"stanchion: {REFUSED}\n"
        assert re.search(r"^All \d+ promises hold\.$", stack.installation.output.read_text(), re.MULTILINE)
        programs = [command.split()[0] for command in stack.descendants().values()]
        assert not [program for program in programs if program.endswith(("/postgres", "/valkey-server"))]
        assert not (var_dir / "postgres").exists()
        async with httpx2.AsyncClient(base_url=stack.record["base_url"], timeout=30.0) as http:
            await check_service_through_rotation(stack, Caller(http, caller.credentials), card, own)
    finally:
        stack.installation.stop(ctrl_c=True)
    await stack.assert_books(own.restored)


async def check_service_through_rotation(
    stack: Stack, caller: Caller, card: dict[str, str], own: OwnServers
) -> None:
    """The client's card keeps working through the key rotation, until the client itself is revoked."""
    await caller.authenticate()
    assert (await caller.get(f"/v1/cards/{card['id']}/balance"))["held"] == "42.50"
    processes = stack.processes()
    await paste_beside(key_rotation(), stack, own)
    assert not set(stack.processes().values()) & set(processes.values())
    assert (await caller.spend(card, "50.00"))["decision"] == "approved"
    assert (await caller.spend(card, "50.00"))["decline_reason"] == "insufficient_funds"
    printed = await paste_beside(upgrade_and_new_client(caller.credentials.client_id), stack, own)
    with pytest.raises(AssertionError, match="invalid-client"):
        await caller.authenticate()
    made = json.loads(printed.rpartition("}")[0] + "}")
    await Caller(caller.http, ClientCredentials(**made)).authenticate()


async def paste_beside(snippets: list[Snippet], stack: Stack, own: OwnServers) -> str:
    """Run the snippets beside the installation; return the last output."""
    folder = Path(tempfile.mkdtemp(dir=own.folder))
    variables = own.variables | {"STANCHION_DATABASE_URL": own.restored}
    pasted = await asyncio.to_thread(paste, snippets, stack.installation.var_dir, folder, variables)
    for snippet, printed in pasted:
        assert not snippet.missing_in(printed), f"{snippet.command}\n{printed}"
    return pasted[-1][1]
