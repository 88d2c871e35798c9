"""The ``stanchion`` command: one line for every expected failure, and valid clients."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import asyncpg
import pytest

from actors.vault import Vault
from api.access.credentials import digest_of
from engine.scopes import default_scopes
from ops.database.clients import DEMO_CLIENTS, ensure_demo_clients
from stanchion import __version__
from tests.support.ops.pages import fence

ROOT = Path(__file__).parents[2]

Stanchion = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def stanchion(var_dir: Path) -> Stanchion:
    """Run a command on the installation in ``var_dir``; keyword arguments are settings."""

    def run(*arguments: str, **settings: object) -> subprocess.CompletedProcess[str]:
        environment = {f"STANCHION_{name.upper()}": str(value) for name, value in settings.items()}
        return subprocess.run(
            [sys.executable, "-m", "ops", *arguments, "--var", str(var_dir)],
            cwd=ROOT,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_version_is_that_of_the_packages() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ops", "--version"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, f"stanchion {__version__}\n", "")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("HOSTS", "none", "must be a whole number from 1 to 256"),
        ("LOG_LEVEL", "loud", "must be debug, info, warning or error"),
        ("MASTER_KEY", "short", "key 1 must be 32 bytes in base64"),
    ],
)
def test_a_broken_setting_stops_the_start(stanchion: Stanchion, name: str, value: str, message: str) -> None:
    done = stanchion("up", **{name: value})
    assert (done.returncode, done.stderr) == (1, f"stanchion: STANCHION_{name}: {message}\n")


def test_a_taken_port_stops_the_start_before_anything_runs(stanchion: Stanchion, var_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        done = stanchion("up", api_port=port, vision_port=0, iso8583_port=0, metrics_port=0)
    assert done.returncode == 1
    assert done.stderr == f"stanchion: port {port} is taken; set STANCHION_API_PORT, or use --ports auto\n"
    assert not (var_dir / "postgres").exists()


def test_a_broken_list_of_links_stops_the_start_before_anything_runs(
    stanchion: Stanchion, var_dir: Path, tmp_path: Path
) -> None:
    path = tmp_path / "links.toml"
    entry = 'name = "acme"\ndirection = "listen"\nmode = "live"\nhost = "0.0.0.0"\nport = 8600\n'
    path.write_text(f"[[links]]\n{entry}")
    done = stanchion("up", links=path, api_port=0, vision_port=0, iso8583_port=0, metrics_port=0)
    assert done.returncode == 1
    assert done.stderr == (
        f"stanchion: {path}, line 1: tls: is missing and 0.0.0.0 is not loopback: card numbers would leave"
        ' this machine unencrypted; add [links.tls], or write plaintext = "accepted"\n'
    )
    assert not (var_dir / "postgres").exists()


def test_a_taken_port_of_a_link_stops_the_start(stanchion: Stanchion, tmp_path: Path) -> None:
    path = tmp_path / "links.toml"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        entry = f'name = "acme"\ndirection = "listen"\nmode = "test"\nhost = "127.0.0.1"\nport = {port}\n'
        path.write_text(f"[[links]]\n{entry}")
        done = stanchion("up", links=path, api_port=0, vision_port=0, iso8583_port=0, metrics_port=0)
    assert (done.returncode, done.stderr) == (1, f"stanchion: port {port} of link acme is taken\n")


def test_a_misspelt_setting_is_pointed_out(stanchion: Stanchion, database_url: str) -> None:
    done = stanchion("migrate", database_url=database_url, databse_url="x")
    assert done.returncode == 0
    assert done.stderr == "stanchion: STANCHION_DATABSE_URL is not a setting; it is ignored\n"
    assert done.stdout == "nothing to apply\n"


def test_an_unreachable_database_is_one_line_without_the_password(stanchion: Stanchion) -> None:
    done = stanchion("migrate", database_url="postgresql://u:hidden@127.0.0.1:1/x")
    assert done.returncode == 1
    assert done.stderr.startswith("stanchion: the database cannot be reached: ")
    assert done.stderr.count("\n") == 1
    assert "hidden" not in done.stderr


def test_commands_use_the_server_that_accepts_writes(stanchion: Stanchion, database_url: str) -> None:
    user, _, rest = database_url.rpartition("@")
    address = f"{user}@127.0.0.1:1,{rest}"
    for command in ("audit", "audit-log"):
        done = stanchion(command, database_url=address)
        assert (done.returncode, done.stderr) == (0, ""), command


def test_each_server_that_cannot_be_used_is_named(stanchion: Stanchion) -> None:
    reasons = "127.0.0.1:1 accepts no connections, no.such.host.invalid:5432 has an unknown name"
    for command in ("migrate", "audit-log"):
        address = "postgresql://u:hidden@127.0.0.1:1,no.such.host.invalid/x"
        done = stanchion(command, database_url=address)
        assert done.returncode == 1
        assert done.stderr.endswith(f"no server accepts connections and writes: {reasons}\n"), done.stderr
        assert done.stderr.count("\n") == 1


async def test_a_new_client_is_printed_once_and_kept_as_a_digest(
    stanchion: Stanchion, database_url: str, vault: Vault
) -> None:
    options = (
        "--tenant",
        "acme",
        "--mode",
        "test",
        "--role",
        "user",
        "--scope",
        "cards:read",
        "--scope",
        "cards:write",
    )
    done = stanchion("clients", "create", *options, database_url=database_url)
    assert (done.returncode, done.stderr) == (0, "")
    client = json.loads(done.stdout)
    assert (client["name"], client["mode"], client["role"]) == ("acme", "test", "user")
    assert client["scopes"] == ["cards:read", "cards:write"]
    assert client["client_id"].startswith("cl_test_")
    assert len(client["client_id"]) == len("cl_test_") + 22
    assert client["client_secret"].startswith("sk_")
    connection = await asyncpg.connect(database_url)
    row = await connection.fetchrow(
        "SELECT clients.*, tenants.name AS tenant FROM clients JOIN tenants ON tenants.id = tenant_id"
        " WHERE client_id = $1",
        client["client_id"],
    )
    await connection.close()
    assert row is not None
    assert row["secret_digest"] == digest_of(vault, client["client_secret"])
    assert (row["tenant"], row["mode"], row["role"], row["scopes"]) == (
        "acme",
        "test",
        "user",
        client["scopes"],
    )
    assert client["client_secret"] not in str(dict(row))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--mode": "both"}, "the mode must be one of test, live"),
        ({"--role": "root"}, "the role must be one of user, admin, owner"),
        ({"--scope": "cards:delete"}, "unknown scope: cards:delete"),
        ({"--tenant": " "}, "a tenant's name must have 1 to 100 printable characters"),
    ],
)
def test_an_invalid_client_is_refused(
    stanchion: Stanchion, database_url: str, change: dict[str, str], message: str
) -> None:
    options = {"--tenant": "acme", "--mode": "test", "--role": "user"} | change
    flags = [part for pair in options.items() for part in pair]
    done = stanchion("clients", "create", *flags, database_url=database_url)
    assert done.returncode == 1
    assert done.stderr.startswith(f"stanchion: {message}")
    assert done.stderr.count("\n") == 1


def test_printed_commands_manage_clients_and_are_on_record(stanchion: Stanchion, database_url: str) -> None:
    page = (ROOT / "ops/docs/ACCESS.md").read_text("utf-8")
    printed = page.partition("```sh\n")[2].partition("```")[0].replace("CLIENT_ID", "{0}")
    made = ""
    for line in printed.splitlines():
        name, *arguments = shlex.split(line.format(made), comments=True)
        assert name == "stanchion"
        done = stanchion(*arguments, database_url=database_url, operator="ann")
        assert (done.returncode, done.stderr) == (0, "")
        made = json.loads(done.stdout)["client_id"] if done.stdout != "revoked\n" else made
    log = stanchion("audit-log", "--json", "--tenant", "acme", "--since", "1h", database_url=database_url)
    shown = [json.loads(line) for line in log.stdout.splitlines()]
    assert [(each["act"], each["actor"]) for each in shown] == [
        ("revoke_client", "ann"),
        ("create_client", "ann"),
        ("create_client", "ann"),
    ]
    assert "cards:reveal" in shown[1]["after"]["scopes"]


def test_printed_command_invites_the_first_owner_of_a_tenant(stanchion: Stanchion, database_url: str) -> None:
    printed = fence("ops/docs/CONSOLE.md", "Signing in", "sh")
    _, *arguments = shlex.split(printed, comments=True)
    done = stanchion(*arguments, database_url=database_url, root_path="/cards")
    assert done.stderr == ""
    assert re.fullmatch(r"http://127\.0\.0\.1:8000/cards/console/enter/[\w-]{43}\n", done.stdout)
    again = stanchion(*arguments, database_url=database_url)
    assert (again.returncode, again.stderr.count("\n")) == (1, 1)
    assert "belongs to a user" in again.stderr
    link = stanchion("sign-in", "ADA@example.com", "--mode", "live", database_url=database_url)
    assert link.stdout.endswith("?mode=live\n")
    unknown = stanchion("sign-in", "grace@example.com", database_url=database_url)
    assert unknown.stderr.startswith("stanchion: no user has this e-mail address")


def test_without_a_running_installation_the_database_is_started_for_the_command(stanchion: Stanchion) -> None:
    first = stanchion("clients", "create", "--tenant", "acme", "--mode", "live", "--role", "admin")
    assert (first.returncode, first.stderr) == (0, "")
    assert json.loads(first.stdout)["scopes"] == list(default_scopes("admin"))
    assert stanchion("migrate").stdout == "nothing to apply\n"


def test_an_unreachable_cluster_is_one_line(stanchion: Stanchion, database_url: str, redis_url: str) -> None:
    done = stanchion(
        "up", "--ports", "auto", "--address", "127.0.0.1:1", database_url=database_url, redis_url=redis_url
    )
    assert done.returncode == 1
    assert done.stderr == "stanchion: STANCHION_RAY_ADDRESS: Connection refused\n"


async def test_demo_clients_are_created_once_for_a_database(
    database_url: str, vault: Vault, tmp_path: Path
) -> None:
    path = tmp_path / "clients.json"
    made = await ensure_demo_clients(database_url, vault, path)
    assert [(client.name, client.mode, client.role) for client in made] == list(DEMO_CLIENTS)
    assert path.stat().st_mode & 0o077 == 0
    assert await ensure_demo_clients(database_url, vault, path) == made

    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM clients WHERE client_id = $1", made[0].client_id)
    await connection.close()
    anew = await ensure_demo_clients(database_url, vault, path)
    assert anew[0].client_id != made[0].client_id
    assert anew[1:] == made[1:]
    assert await ensure_demo_clients(database_url, vault, path) == anew


INTERRUPTED_WHILE_LOADING = """
import sys

class Impatience:
    def find_spec(self, name, *_rest):
        if name == "asyncpg":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Impatience())
sys.argv = ["stanchion", "version"]
from ops.__main__ import main
main()
"""


def test_an_interrupt_during_the_import_prints_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_WHILE_LOADING],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


COMPLETED = """
import sys
sys.argv = ["stanchion"]
from ops.__main__ import main
main()
"""


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("stanchion trans", "transactions"), ("stanchion spend --merch", "--merchant")],
)
def test_shells_complete_commands_and_options(typed: str, completed: str) -> None:
    words = {"_STANCHION_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    done = subprocess.run(
        [sys.executable, "-c", COMPLETED],
        cwd=ROOT,
        env=os.environ | words,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout.split()) == (0, [completed])


def test_acts_of_commands_are_in_the_log_of_the_installation(stanchion: Stanchion, var_dir: Path) -> None:
    created = stanchion("clients", "create", "--tenant", "acme", "--mode", "test", "--role", "user")
    assert created.returncode == 0
    log = var_dir / "log/stanchion.jsonl"
    assert not log.exists(), "no installation has run there"
    log.touch()
    client = json.loads(created.stdout)["client_id"]
    assert stanchion("clients", "revoke", client, operator="ann").returncode == 0
    (line,) = map(json.loads, log.read_text().splitlines())
    assert (line["event"], line["act"], line["actor"]) == ("act", "revoke_client", "operator ann")
    assert (line["process"], line["level"], line["object_kind"]) == ("command", "info", "client")
