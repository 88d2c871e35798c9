"""Commands about links to networks and processors."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from ops.cli.options import Var, read_settings
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.supervision.installation import database

app = typer.Typer()
links = typer.Typer(help="Links to networks and processors.", invoke_without_command=True)
app.add_typer(links, name="links")


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
