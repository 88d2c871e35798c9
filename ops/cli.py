"""The ``stanchion`` command. Every command takes ``--var DIR``, the folder of the installation that it works
on.

An expected failure prints one line on stderr and gives exit status 1; a traceback means a bug.

Commands import their code when they are called: importing everything would delay each start by a second.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.metadata import version as package_version
from pathlib import Path
from typing import Annotated, Any, Final, get_args

import typer

from actors.cluster.environment import prepare
from actors.placement import ProcessSpec
from actors.settings import Settings, unknown_variables
from actors.vault import Vault
from engine.kyc.flows import PURPOSES
from engine.scopes import REVEAL, SCOPES
from ops.commands.decision_behaviours import BEHAVIOURS
from ops.database import process_role
from ops.database.clients import ClientCredentials, create_client, revoke_client
from ops.database.key_check import check_master_key
from ops.database.migrate import migrate as bring_up_to_date
from ops.database.migrate import waiting
from ops.database.operator_acts import OperatorAct, on_installation, operator_of, record_alone
from ops.database.operator_connection import connect_operator
from ops.supervision.installation import RUN_FILE, SERVERS_FILE, database
from ops.supervision.up import MakeProcessGroup, ProcessGroup
from ops.supervision.up import up as run_installation
from stanchion.records import ExportFormat, ExportKind

EXPORT_KINDS: Final[tuple[Any, ...]] = get_args(ExportKind)
EXPORT_FORMATS: Final[tuple[Any, ...]] = get_args(ExportFormat)
API_FACTORY = "api.serving:ApiRole"
PORT_SETTINGS = ("api_port", "vision_port", "iso8583_port", "metrics_port")

app = typer.Typer(
    help="Stanchion: a card issuing platform. `stanchion up` starts everything on this machine.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
clients = typer.Typer(help="API clients of tenants.", no_args_is_help=True)
app.add_typer(clients, name="clients")
kyc = typer.Typer(
    help="Applicants' data in custody: erase it, read it (recorded), reseal its keys.", no_args_is_help=True
)
app.add_typer(kyc, name="kyc")
custody = typer.Typer(help="Card numbers and applicants' data in custody.", no_args_is_help=True)
app.add_typer(custody, name="custody")
keys = typer.Typer(help="Master keys and the secrets that they seal.", no_args_is_help=True)
app.add_typer(keys, name="keys")
links = typer.Typer(help="Links to networks and processors.", invoke_without_command=True)
app.add_typer(links, name="links")
cards = typer.Typer(help="Issued cards.", no_args_is_help=True)
app.add_typer(cards, name="cards")
events = typer.Typer(help="Past events.", no_args_is_help=True)
app.add_typer(events, name="events")

Var = Annotated[
    Path | None, typer.Option("--var", metavar="DIR", help="State folder of the installation [default: var].")
]


def read_settings(var: Path | None, **overrides: object) -> Settings:
    """The settings of this command; options override the environment. Raises SettingsError."""
    for name in unknown_variables(os.environ):
        print(f"stanchion: {name} is not a setting; it is ignored", file=sys.stderr)
    return Settings.load(**({"var_dir": var} if var is not None else {}), **overrides)


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
) -> None:
    """Start everything, and serve until Ctrl-C or SIGTERM."""
    if ports not in (None, "auto"):
        raise typer.BadParameter("must be `auto`", param_hint="--ports")
    overrides: dict[str, object] = dict.fromkeys(PORT_SETTINGS, 0) if ports == "auto" else {}
    if address is not None:
        overrides["ray_address"] = address
    settings = read_settings(var, **overrides)
    prepare(settings)
    run_installation(settings, _load_actors)


def _load_actors() -> MakeProcessGroup:
    """Import the actors; returns the constructor of the supervisor of all processes, API servers included."""
    from actors.boot import processes
    from actors.cluster.supervisor import ClusterSupervisor

    def supervisor(settings: Settings) -> ProcessGroup:
        numbers = range(settings.api_servers)
        servers = [ProcessSpec(f"api-{number}", API_FACTORY, "each") for number in numbers]
        return ClusterSupervisor(settings, [*processes(settings), *servers])

    return supervisor


@app.command()
def restart(var: Var = None) -> None:
    """Replace all processes of the running installation, one by one, while it serves."""
    from ops.supervision.control import restart as restart_installation

    settings = read_settings(var)
    if (settings.var_dir / RUN_FILE).exists():
        _record(settings, on_installation("restart_processes", {"state_folder": str(settings.var_dir)}))
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

    _record(settings, on_installation("drain_node", {"node": node}))
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
    settings = read_settings(var)
    keys = partial(Vault.from_settings, settings, make=False)
    with database(settings) as dsn:
        applied = asyncio.run(bring_up_to_date(dsn, before_only=before, keys=keys))
        if applied:
            act = on_installation("migrate_database", {"applied": applied})
            asyncio.run(record_alone(dsn, operator_of(settings), act))
        left = asyncio.run(waiting(dsn))
        if settings.database_url is not None:
            asyncio.run(process_role.grant(dsn, process_role.role_of(settings.database_dsn)))
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

    settings = read_settings(var)
    with database(settings) as dsn:
        findings = asyncio.run(audit_books(dsn, _keys(settings)))
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


def _record(settings: Settings, act: OperatorAct) -> None:
    """Record an act that takes place outside the database, which runs meanwhile."""
    if settings.database_url is None and not (settings.var_dir / SERVERS_FILE).exists():
        print("stanchion: no database is known here, so the audit log has no entry for this", file=sys.stderr)
        return
    with database(settings) as dsn:
        asyncio.run(record_alone(dsn, operator_of(settings), act))


@app.command()
def audit_log(
    tenant: Annotated[
        str | None, typer.Option(help="Name of a tenant; default: all, and the installation.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="An age like 30m, 2h or 3d, or an instant of ISO 8601.")
    ] = None,
    act: Annotated[str | None, typer.Option(help="Name of an act, for example update_card.")] = None,
    json_lines: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    var: Var = None,
) -> None:
    """Print who administered what, newest first: acts through the API and on the command line."""
    from ops.commands.audit_log import acts, as_json, as_line
    from ops.commands.resend import instant_of

    begin = None if since is None else datetime.fromisoformat(instant_of(since, datetime.now(UTC)))

    async def show(dsn: str) -> None:
        async for row in acts(dsn, tenant=tenant, since=begin, act=act):
            print(as_json(row) if json_lines else as_line(row))

    with database(read_settings(var)) as dsn:
        asyncio.run(show(dsn))


@clients.command()
def create(
    tenant: Annotated[str, typer.Option(help="Name of the tenant; created if it is new.")],
    mode: Annotated[str, typer.Option(help="test or live.")],
    role: Annotated[str, typer.Option(help="user, admin, or owner, who manages clients through the API.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(
            help=f"May be repeated; default: all that the role can use, without {REVEAL}. "
            f"Scopes: {', '.join(SCOPES)}."
        ),
    ] = None,
    var: Var = None,
) -> None:
    """Create an API client and print it as JSON; its secret is shown only this once."""
    settings = read_settings(var)
    with database(settings) as dsn:
        vault = Vault.from_settings(settings)

        async def make() -> ClientCredentials:
            # Processes of the previous version may be running.
            await bring_up_to_date(dsn, before_only=True, keys=lambda: vault)
            await check_master_key(dsn, vault)
            connection = await connect_operator(dsn)
            try:
                return await create_client(
                    connection,
                    vault,
                    tenant=tenant,
                    mode=mode,
                    role=role,
                    operator=operator_of(settings),
                    scopes=tuple(scope or ()),
                )
            finally:
                await connection.close(timeout=10)

        print(json.dumps(asdict(asyncio.run(make())), indent=2))


@clients.command()
def revoke(
    client_id: Annotated[
        str, typer.Argument(metavar="CLIENT_ID", help="The client_id that `create` printed.")
    ],
    var: Var = None,
) -> None:
    """Revoke an API client for ever, with all its tokens; the last owner of a tenant, too."""
    settings = read_settings(var)
    with database(settings) as dsn:
        has_owner = asyncio.run(revoke_client(dsn, client_id, operator_of(settings)))
    print("revoked")
    if not has_owner:
        print("The tenant has no owner in this mode any more: stanchion clients create", file=sys.stderr)


@app.command()
def listen(
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Event type; may be repeated; default: all.")
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 = a free one.")] = 0,
    forward_to: Annotated[
        str | None, typer.Option(metavar="URL", help="Forward deliveries to this URL, and return its status.")
    ] = None,
    fail: Annotated[int, typer.Option(min=0, help="Answer this many deliveries with 500 first.")] = 0,
    raw: Annotated[bool, typer.Option("--raw", help="Print bodies only, one per line.")] = False,
    var: Var = None,
) -> None:
    """Receive, verify and print the events of the running installation, until Ctrl-C."""
    from ops.commands.listen import listen as listen_for_events

    listen_for_events(
        read_settings(var).var_dir,
        types=types or ["*"],
        port=port,
        fail=fail,
        forward_to=forward_to,
        raw=raw,
    )


@app.command()
def decide(
    answer: Annotated[str, typer.Option(help=f"How to answer: {', '.join(BEHAVIOURS)}.")] = "approve",
    programme: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="The programme to decide for; default: a programme created for this."
        ),
    ] = None,
    secret: Annotated[
        str | None, typer.Option(envvar="DECISION_SECRET", help="The programme's decision_secret.")
    ] = None,
    approve_up_to: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="Approve at most this amount, partially where possible."),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 = a free one.")] = 0,
    var: Var = None,
) -> None:
    """Serve a programme's decision endpoint and print the requests to it, until Ctrl-C."""
    from ops.commands.decide import decide as decide_for_programme

    if answer not in BEHAVIOURS:
        raise typer.BadParameter(f"one of {', '.join(BEHAVIOURS)}", param_hint="--answer")
    decide_for_programme(
        read_settings(var).var_dir,
        answer,
        programme_id=programme,
        secret=secret,
        approve_up_to=approve_up_to,
        port=port,
    )


@app.command()
def verify(
    header: Annotated[str, typer.Option(help="The value of X-Platform-Signature.")],
    secret: Annotated[
        list[str], typer.Option(envvar="WEBHOOK_SECRET", help="Signing secret; may be repeated.")
    ],
    file: Annotated[str, typer.Argument(help="The body, byte for byte; - is standard input.")] = "-",
    any_time: Annotated[bool, typer.Option("--any-time", help="Accept signatures of any age.")] = False,
) -> None:
    """Check the signature of a stored delivery: exit status 0 if it is valid, else 1."""
    from ops.commands.verify import verify_delivery

    try:
        verify_delivery(file, header, secret, any_time=any_time)
    except OSError as failure:
        raise typer.BadParameter(f"cannot be read: {failure.strerror}", param_hint="FILE") from None
    print("The signature is good.")


@links.callback()
def show(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    var: Var = None,
) -> None:
    """Show the state of every link at every edge of the running installation."""
    if context.invoked_subcommand is not None:
        return

    from msgspec import json as msgspec_json

    from ops.commands.links import table
    from ops.supervision.control import links as read_links

    statuses = asyncio.run(read_links(read_settings(var).var_dir))
    print(msgspec_json.encode(statuses).decode() if as_json else "\n".join(table(statuses)))


LinkName = Annotated[str, typer.Argument(metavar="NAME", help="The link's name in links.toml.")]


@links.command("sign-off")
def sign_off(name: LinkName, var: Var = None) -> None:
    """Drain a link: every edge signs off, answers open messages, and closes its connections. It stays signed
    off, also after a restart, until `stanchion links sign-on`."""
    _set_signed_off(name, var, signed_off=True)
    print(f"Link {name} is signed off.")


@links.command("sign-on")
def sign_on(name: LinkName, var: Var = None) -> None:
    """Open a link again that was signed off."""
    _set_signed_off(name, var, signed_off=False)
    print(f"Link {name} is in use again.")


def _set_signed_off(name: str, var: Path | None, *, signed_off: bool) -> None:
    from actors.network.links.file import configured_links
    from ops.commands.links import check_name, record_sign_off, wait_for
    from ops.supervision.control import SOCKET_FILE
    from ops.supervision.control import links as read_links

    settings = read_settings(var)
    check_name(name, configured_links(settings))
    with database(settings) as dsn:
        asyncio.run(record_sign_off(dsn, name, signed_off=signed_off))
        act = on_installation("sign_off_link" if signed_off else "sign_on_link", {"link": name})
        asyncio.run(record_alone(dsn, operator_of(settings), act))
    # The supervisor of a cluster may run on another machine; then this command does not wait.
    if (settings.var_dir / SOCKET_FILE).exists():
        asyncio.run(wait_for(name, partial(read_links, settings.var_dir), signed_off=signed_off))


@events.command()
def resend(
    endpoint: Annotated[str, typer.Option(help="Id of the webhook endpoint.")],
    since: Annotated[str, typer.Option(help="An age like 30m, 2h or 3d, or an instant of ISO 8601.")],
    until: Annotated[str | None, typer.Option(help="The end of the window; default: now.")] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", help="Event type; may be repeated; default: all.")
    ] = None,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Deliver past events to one endpoint again, as the first admin client of `run.json`."""
    from ops.commands.resend import instant_of
    from ops.commands.resend import resend as resend_events
    from stanchion import Client

    now = datetime.now(UTC)
    window = instant_of(since, now), None if until is None else instant_of(until, now)
    with Client.of_installation(read_settings(var).var_dir / RUN_FILE, mode=mode) as client:
        number = resend_events(
            client, endpoint, since=window[0], until=window[1], types=types or (), on_event=print
        )
    print(f"{number} event{'' if number == 1 else 's'} will be delivered again.")


@app.command()
def export(
    kind_: Annotated[str, typer.Argument(metavar="KIND", help=f"One of {', '.join(EXPORT_KINDS)}.")],
    from_: Annotated[str, typer.Option("--from", help="An age like 30d, or an instant of ISO 8601.")],
    to: Annotated[str | None, typer.Option(help="The end of the window; default: now.")] = None,
    given_format: Annotated[str, typer.Option("--format", help="csv or jsonl.")] = "csv",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Default: KIND.FORMAT.")
    ] = None,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Write transactions, ledger entries, decisions or stand-ins to a file, as a client of `run.json`."""
    import httpx2

    from ops.commands.export import Bar
    from ops.commands.export import export as write_export
    from ops.commands.resend import instant_of
    from stanchion import Client

    kind = _one_of(EXPORT_KINDS, kind_, "KIND")
    format_ = _one_of(EXPORT_FORMATS, given_format, "--format")
    now, run_file = datetime.now(UTC), read_settings(var).var_dir / RUN_FILE
    path = output or Path(f"{kind}.{format_}")
    window = {"from_": instant_of(from_, now), "to": instant_of(to or "0s", now)}
    bar = Bar(sys.stderr)
    with Client.of_installation(run_file, mode=mode) as client:
        address = json.loads(run_file.read_bytes())["base_url"]
        with httpx2.Client(base_url=address, timeout=60.0) as http:
            try:
                written = write_export(client, http, kind, format_=format_, path=path, progress=bar, **window)
            finally:
                bar.close()
    print(f"{path}: {written['rows']} rows as of {written['as_of']}")


def _one_of(known: tuple[Any, ...], given: str, hint: str) -> Any:
    if given not in known:
        raise typer.BadParameter(f"one of {', '.join(known)}", param_hint=hint)
    return given


@app.command()
def backtest(
    change: Annotated[Path, typer.Argument(metavar="CHANGE.json", help="The change, as the API takes it.")],
    programme: Annotated[str, typer.Option(metavar="ID", help="The change applies to all its cards.")],
    days: Annotated[int, typer.Option(min=1, max=92, help="The window: so many days until now.")] = 30,
    max_approved_lost: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Approvals that may be lost, like 0.5%.")
    ] = None,
    max_newly_approved: Annotated[
        str | None, typer.Option(metavar="PERCENT", help="Declines that may become approvals.")
    ] = None,
    assume_presented: Annotated[
        bool, typer.Option(help="The fate of purchases that only the change approves.")
    ] = True,
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Try a change of controls and rules on recorded decisions; exit 1 if a limit is exceeded."""
    from rich.console import Console

    from ops.commands import backtest as command
    from stanchion import Client

    limits = command.Limits(*map(command.parse_share, (max_approved_lost, max_newly_approved)))
    now, wanted, console = datetime.now(UTC), command.read_change(change), Console(highlight=False)
    window = tuple(
        f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in (now - timedelta(days=days), now + timedelta(seconds=1))
    )
    with Client.of_installation(read_settings(var).var_dir / RUN_FILE, mode=mode) as client:
        done = command.run(
            client,
            console,
            wanted,
            {"type": "programme", "id": programme},
            (window[0], window[1]),
            assume_presented=assume_presented,
        )
    command.report(console, done)
    broken = command.broken_limits(done, limits)
    if broken:
        raise command.BacktestError("; ".join(broken))


@app.command()
def settlement(
    programme: Annotated[str, typer.Option(metavar="ID", help="The programme.")],
    date: Annotated[str, typer.Option(metavar="YYYY-MM-DD", help="The day in the programme's time zone.")],
    mode: Annotated[str, typer.Option(help="test or live.")] = "test",
    var: Var = None,
) -> None:
    """Print the settlement report of a programme and day as JSON, as a client of `run.json`."""
    from stanchion import Client

    with Client.of_installation(read_settings(var).var_dir / RUN_FILE, mode=mode) as client:
        print(json.dumps(client.settlement_reports.get(programme, date), indent=2))


@kyc.command()
def erase(
    check: Annotated[str | None, typer.Option(metavar="ID", help="One check.")] = None,
    cardholder: Annotated[str | None, typer.Option(metavar="ID", help="All checks of a cardholder.")] = None,
    var: Var = None,
) -> None:
    """Destroy the keys of an applicant's data, so that it can never be read again."""
    from ops.commands.kyc import erase as erase_checks

    settings = read_settings(var)
    with database(settings) as dsn:
        count = asyncio.run(
            erase_checks(dsn, operator_of(settings), check_id=check, cardholder_id=cardholder)
        )
    print(f"erased {count}" if count else "nothing to erase")


@kyc.command()
def read(
    check: Annotated[str, typer.Option(metavar="ID", help="The check.")],
    purpose: Annotated[str, typer.Option(help=f"One of {', '.join(PURPOSES)}.")],
    reader: Annotated[str, typer.Option(metavar="NAME", help="Who reads; recorded with the access.")],
    to: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder for the pictures.")] = None,
    var: Var = None,
) -> None:
    """Print an applicant's data for one purpose; the access is recorded."""
    from ops.commands.kyc import read as read_custody
    from ops.commands.kyc import write_pictures

    settings = read_settings(var)
    with database(settings) as dsn:
        vault = Vault.from_settings(settings)
        texts, pictures = asyncio.run(
            read_custody(dsn, vault, operator_of(settings), check_id=check, purpose=purpose, reader=reader)
        )
    print(json.dumps(texts | {name: f"{len(picture)} bytes" for name, picture in pictures.items()}, indent=2))
    for path in write_pictures(pictures, to) if to is not None else ():
        print(f"wrote {path}", file=sys.stderr)


@kyc.command()
def rewrap(var: Var = None) -> None:
    """Seal the keys of applicants' data under the current master key, after a rotation."""
    from ops.commands.kyc import rewrap as rewrap_keys

    settings = read_settings(var)
    with database(settings) as dsn:
        moved = asyncio.run(rewrap_keys(dsn, Vault.from_settings(settings), operator_of(settings)))
    print(f"resealed {moved}")


@custody.command("log")
def custody_log(
    about: Annotated[str | None, typer.Option("--id", help="A card or a KYC check; default: all.")] = None,
    since: Annotated[
        str | None, typer.Option(help="An age like 30m, 2h or 3d, or an instant of ISO 8601.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Number of rows.")] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
    var: Var = None,
) -> None:
    """Print who was given card numbers or applicants' data, when, and for which purpose; newest first."""
    from ops.commands.custody import lines
    from ops.commands.custody import log as read_log
    from ops.commands.resend import instant_of

    begin = None if since is None else datetime.fromisoformat(instant_of(since, datetime.now(UTC)))
    with database(read_settings(var)) as dsn:
        rows = asyncio.run(read_log(dsn, id_=about, since=begin, limit=limit))
    print("\n".join(map(json.dumps, rows) if as_json else lines(rows)))


@keys.command()
def status(var: Var = None) -> None:
    """Count stored secrets by the master key that seals them; key 1 is the current one."""
    from ops.commands.keys import status as status_of_keys

    settings = read_settings(var)
    with database(settings) as dsn:
        found = asyncio.run(status_of_keys(dsn, Vault.from_settings(settings)))
    for name, counts in found:
        names = {key: "an unknown key" if key is None else f"key {key + 1}" for key in counts}
        shown = ", ".join(f"{count} under {names[key]}" for key, count in counts.items())
        print(f"{name}: {shown or 'none'}")


@keys.command()
def reseal(var: Var = None) -> None:
    """Seal stored secrets under the current master key, after a rotation, running or not."""
    from ops.commands.keys import reseal as reseal_secrets

    settings = read_settings(var)
    with database(settings) as dsn:
        resealed = asyncio.run(reseal_secrets(dsn, Vault.from_settings(settings), operator_of(settings)))
    print("\n".join(f"{name}: {count} resealed" for name, count in resealed))


@keys.command()
def authentication(
    programme: Annotated[str, typer.Argument(metavar="PROGRAMME_ID")],
    file: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="The key as 64 hexadecimal digits; - is standard input."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the programme's keys.")] = False,
    var: Var = None,
) -> None:
    """Set the key by which a programme's 3-D Secure values are verified; print a new one if none is given."""
    from ops.commands.authentication_key import new_key, read_key, remove_key, set_key

    if remove and file is not None:
        raise typer.BadParameter("cannot be combined with --remove", param_hint="--file")
    settings = read_settings(var)
    key = new_key() if file is None else read_key(file)
    with database(settings) as dsn:
        if remove:
            asyncio.run(remove_key(dsn, programme))
        else:
            asyncio.run(set_key(dsn, Vault.from_settings(settings, make=False), programme, key))
        act = "remove_authentication_key" if remove else "set_authentication_key"
        done = on_installation(act, {"programme_id": programme.lower()})
        asyncio.run(record_alone(dsn, operator_of(settings), done))
    if file is None and not remove:
        print(key.hex())


@cards.command("show-test")
def show_test(
    card_ids: Annotated[list[str] | None, typer.Argument(metavar="CARD_ID...")] = None,
    programme: Annotated[str | None, typer.Option(metavar="ID", help="All cards of this programme.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON array.")] = False,
    var: Var = None,
) -> None:
    """Print number, expiry, track 2 and CVV2 of test cards, for a simulator of your own."""
    from ops.commands.show_cards import show_test as show_test_cards

    settings = read_settings(var)
    with database(settings) as dsn:
        vault = Vault.from_settings(settings, make=False)
        found = asyncio.run(show_test_cards(dsn, vault, card_ids or (), programme))
        shown = on_installation("show_test_cards", {"card_ids": [each.card_id for each in found]})
        asyncio.run(record_alone(dsn, operator_of(settings), shown))
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
        return
    for each in found:
        print(f"{each.card_id}  {each.pan}  {each.exp_month:02d}/{each.exp_year}  {each.cvv2}  {each.track2}")


@app.command()
def demo(var: Var = None) -> None:
    """Walk through the life of a card, on free ports, with a live commentary."""
    from ops.demo import demo as run_demo

    run_demo(var)


@app.command()
def version() -> None:
    """Print the version of this installation's code."""
    print(f"stanchion {package_version('stanchion')}")


def main() -> None:
    """Run the command that the arguments name."""
    try:
        app()
    except Exception as failure:
        # This module imports every module that defines an expected failure.
        from ops.expected_failures import EXPECTED_FAILURES

        if not isinstance(failure, EXPECTED_FAILURES):
            raise
        print(f"stanchion: {failure}", file=sys.stderr)
        raise SystemExit(1) from None
