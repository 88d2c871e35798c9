"""Commands about clients, keys and the audit log."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from actors.vault import Vault
from engine.scopes import MODES, REVEAL, SCOPES
from ops.cli.options import Mode, Var, one_of, read_settings
from ops.database.local_owner import LOCAL_EMAIL
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.database.operator_connection import connect_operator
from ops.supervision.installation import database

app = typer.Typer()
clients = typer.Typer(help="API clients of tenants.", no_args_is_help=True)
app.add_typer(clients, name="clients")
users = typer.Typer(help="People who sign in to the console.", no_args_is_help=True)
app.add_typer(users, name="users")
keys = typer.Typer(help="Master keys and the secrets that they seal.", no_args_is_help=True)
app.add_typer(keys, name="keys")


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
    from ops.database.clients import ClientCredentials, create_client
    from ops.database.key_check import check_master_key
    from ops.database.migrate import migrate as bring_up_to_date

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
    from ops.database.clients import revoke_client

    settings = read_settings(var)
    with database(settings) as dsn:
        has_owner = asyncio.run(revoke_client(dsn, client_id, operator_of(settings)))
    print("revoked")
    if not has_owner:
        print("The tenant has no owner in this mode any more: stanchion clients create", file=sys.stderr)


@app.command()
def sign_in(
    email: Annotated[
        str, typer.Argument(metavar="[EMAIL]", help="The user's sign-in name; default: the local owner.")
    ] = LOCAL_EMAIL,
    mode: Mode = "test",
    var: Var = None,
) -> None:
    """Print a link that signs a user in to the console: once, within 15 minutes."""
    from ops.commands.sign_in import link_of

    print(link_of(read_settings(var), email, one_of(MODES, mode, "--mode")))


@users.command("create")
def create_user(
    email: Annotated[str, typer.Argument(metavar="EMAIL", help="The sign-in name.")],
    tenant: Annotated[str, typer.Option(help="Name of the tenant; created if it is new.")],
    name: Annotated[str, typer.Option(help="The user's name.")],
    role: Annotated[str, typer.Option(help="user, admin, or owner, who manages users.")] = "owner",
    mode: Annotated[
        list[str] | None, typer.Option(help="test or live; may be repeated; default: both.")
    ] = None,
    reveal: Annotated[bool, typer.Option("--reveal", help="The user may show card numbers.")] = False,
    var: Var = None,
) -> None:
    """Create a user and print the invitation: a link that sets a password, once, within seven days."""
    from ops.commands.sign_in import base_of
    from ops.database.users import NewUser
    from ops.database.users import create_user as make_user

    settings = read_settings(var)
    user = NewUser(tenant, email, name, role, tuple(mode or MODES), reveal)
    with database(settings) as dsn:
        vault = Vault.from_settings(settings)
        link = asyncio.run(make_user(dsn, vault, user, operator_of(settings)))
    print(f"{base_of(settings)}{link.path}")


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
    from ops.commands.progress import progress_bar

    settings = read_settings(var)
    with database(settings) as dsn, progress_bar(sys.stderr) as bar:
        vault = Vault.from_settings(settings)
        resealed = asyncio.run(reseal_secrets(dsn, vault, operator_of(settings), bar))
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
