"""Commands that run an installation and keep it healthy."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from actors.cluster.environment import prepare
from actors.cluster.fork_server_process import ForkServer
from actors.settings import Settings
from actors.vault import Vault
from ops.cli.options import Var, read_settings, record
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.supervision.installation import RUN_FILE, database

if TYPE_CHECKING:
    from ops.supervision.up import MakeProcessGroup, ProcessGroup

API_FACTORY: Final = "api.serving:ApiRole"
SUPERVISOR: Final = "supervisor"
PORT_SETTINGS: Final = ("api_port", "vision_port", "iso8583_port", "metrics_port")

app = typer.Typer()


@app.command()
def up(
    var: Var = None,
    ports: Annotated[
        str | None,
        typer.Option(metavar="auto", help="`auto` picks free ports instead of those in the settings."),
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="RAY", help="Join this Ray cluster instead of starting a local one.")
    ] = None,
    root_path: Annotated[
        str | None,
        typer.Option(metavar="PREFIX", help="Path prefix under which a proxy serves the API, like /cards."),
    ] = None,
) -> None:
    """Start everything, and serve until Ctrl-C or SIGTERM."""
    if ports not in (None, "auto"):
        raise typer.BadParameter("must be `auto`", param_hint="--ports")
    overrides: dict[str, object] = dict.fromkeys(PORT_SETTINGS, 0) if ports == "auto" else {}
    if address is not None:
        overrides["ray_address"] = address
    if root_path is not None:
        overrides["root_path"] = root_path
    settings = read_settings(var, SUPERVISOR, **overrides)
    prepare(settings)
    with _fork_server(settings) as fork_server:
        from ops.supervision.up import up as run_installation

        run_installation(settings, partial(_load_actors, fork_server))


@contextmanager
def _fork_server(settings: Settings) -> Iterator[ForkServer | None]:
    """The fork server of a local Ray. It starts before the supervisor's own imports, which take as long as
    its own."""
    if settings.ray_address:
        yield None
        return
    fork_server = ForkServer()
    fork_server.start()
    try:
        yield fork_server
    finally:
        fork_server.stop()


def _load_actors(fork_server: ForkServer | None) -> MakeProcessGroup:
    """Import the actors; returns the constructor of the supervisor of all processes, API servers included."""
    from actors.boot import API_NICENESS, processes
    from actors.cluster.supervisor import ClusterSupervisor
    from actors.cluster.title import set_title, title_of
    from actors.placement import ProcessSpec

    def supervisor(settings: Settings) -> ProcessGroup:
        set_title(title_of(SUPERVISOR))
        numbers = range(settings.api_servers)
        # Ray puts the supervisor's current folder first on the module path of every process, and a folder
        # called `api` there would hide ours. All paths of the settings are absolute.
        os.chdir(settings.var_dir)
        servers = [ProcessSpec(f"api-{number}", API_FACTORY, "each", API_NICENESS) for number in numbers]
        return ClusterSupervisor(settings, [*processes(settings), *servers], fork_server)

    return supervisor


@app.command()
def restart(var: Var = None) -> None:
    """Replace all processes of the running installation, one by one, while it serves."""
    from actors.release import check_release
    from ops.supervision.control import restart as restart_installation

    settings = read_settings(var)
    if (settings.var_dir / RUN_FILE).exists():
        with database(settings) as dsn:
            # This command is of the release that the new processes would run.
            asyncio.run(check_release(dsn))
        record(settings, on_installation("restart_processes", {"state_folder": str(settings.var_dir)}))
    asyncio.run(restart_installation(settings.var_dir, lambda line: print(line, flush=True)))
    print("Restarted all processes except the supervisor.")


@app.command()
def drain(
    node: Annotated[
        str | None,
        typer.Argument(metavar="NODE", help="The node's id, or its first letters; default: this node."),
    ] = None,
    var: Var = None,
    address: Annotated[str | None, typer.Option(metavar="RAY", help="The cluster's address.")] = None,
) -> None:
    """Take a node of a cluster out of service: its shards move, its servers finish their open requests."""
    settings = read_settings(var, **({"ray_address": address} if address is not None else {}))
    prepare(settings)

    from actors.cluster.drain import drain as drain_node

    record(settings, on_installation("drain_node", {"node": node}))
    name, hosts = asyncio.run(drain_node(settings, node))
    print(f"Drained node {name}; it had {hosts} shard hosts.")


@app.command()
def migrate(
    before: Annotated[
        bool,
        typer.Option("--before", help="Only migrations that processes of the previous version can run with."),
    ] = False,
    var: Var = None,
) -> None:
    """Bring the database to this version of the code."""
    from actors.database_address import role_of
    from ops.database import process_role
    from ops.database.migrate import migrate as bring_up_to_date
    from ops.database.migrate import waiting

    settings = read_settings(var)
    keys = partial(Vault.from_settings, settings, make=False)
    with database(settings) as dsn:
        applied = asyncio.run(bring_up_to_date(dsn, before_only=before, keys=keys))
        if applied:
            act = on_installation("migrate_database", {"applied": applied})
            asyncio.run(record_alone(dsn, operator_of(settings), act))
        left = asyncio.run(waiting(dsn))
        if settings.database_url is not None:
            asyncio.run(process_role.grant(dsn, role_of(settings.database_dsn)))
    print("\n".join(f"applied {name}" for name in applied) or "nothing to apply")
    for name in left:
        print(f"{name} waits until every process runs this version: stanchion migrate")


@app.command()
def audit(var: Var = None) -> None:
    """Check the books of the whole database, running or not: exit status 0 if every promise holds, else 1.

    Checking that sealed personal data can be opened needs the master key; without it, that check is left out.
    """
    from ops.audit import AuditError
    from ops.audit import audit as audit_books
    from ops.commands.progress import progress_bar

    settings = read_settings(var)
    with database(settings) as dsn, progress_bar(sys.stderr) as bar:
        findings = asyncio.run(audit_books(dsn, _keys(settings), bar))
    print("\n".join(str(finding) for finding in findings))
    broken = sum(finding.broken > 0 for finding in findings)
    if broken:
        raise AuditError(f"{broken} of {len(findings)} promises are broken")
    print(f"All {len(findings)} promises hold.")


def _keys(settings: Settings) -> Vault | None:
    """The vault, or ``None`` on a machine without the master key."""
    if settings.master_key is None and not (settings.var_dir / "keys" / "master.key").exists():
        return None
    return Vault.from_settings(settings, make=False)


@app.command()
def demo(
    keep: Annotated[
        bool, typer.Option("--keep", help="Fill an installation with a day of traffic, and keep it running.")
    ] = False,
    var: Var = None,
) -> None:
    """Walk through the life of a card, on free ports, with a live commentary."""
    if keep:
        from ops.demo.keep import keep as run_and_keep

        run_and_keep(var)
        return
    from ops.demo import demo as run_demo

    run_demo(var)


@app.command()
def version() -> None:
    """Print the version of this installation's code."""
    from stanchion import __version__

    print(f"stanchion {__version__}")
