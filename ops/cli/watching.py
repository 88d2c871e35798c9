"""Commands that show a running installation: its processes and its log."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ops.cli.options import NEGATIVE, Json, Var, one_of, read_settings

app = typer.Typer()


@app.command()
def status(as_json: Json = False, var: Var = None) -> None:
    """Show what runs, where, and how it is: exit status 0 if the installation serves, else 3."""
    from msgspec import json as msgspec_json

    from ops.commands.status import lines
    from ops.commands.status import status as read_status

    found = read_status(read_settings(var).var_dir)
    print(msgspec_json.encode(found).decode() if as_json else "\n".join(lines(found)))
    if found.state != "serving":
        raise typer.Exit(NEGATIVE)


@app.command()
def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Print new lines until Ctrl-C.")] = False,
    last: Annotated[int, typer.Option("--lines", "-n", min=0, help="Number of past lines.")] = 50,
    level: Annotated[str, typer.Option(help="Lowest level: debug, info, warning or error.")] = "debug",
    process: Annotated[
        str | None, typer.Option(help="A process like api-0, or api for all of a kind.")
    ] = None,
    event: Annotated[str | None, typer.Option(help="An event, like decision or shards_moved.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the lines as they are in the file.")] = False,
    var: Var = None,
) -> None:
    """Print the log of the processes on this machine, oldest line first."""
    from ops.commands.logs import LEVELS, LogFilter
    from ops.commands.logs import logs as read_logs
    from ops.supervision.log_view import for_people

    wanted = LogFilter(level=one_of(LEVELS, level, "--level"), process=process, event=event)
    for line in read_logs(read_settings(var).var_dir, wanted, last=last, follow=follow):
        print(line if as_json else for_people(line, colors=sys.stdout.isatty()), flush=follow)
