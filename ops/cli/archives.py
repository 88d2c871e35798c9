"""Commands about archived months."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer

from ops.cli.options import Json, Var, read_settings
from ops.database.operator_acts import on_installation, operator_of, record_alone
from ops.supervision.installation import database

app = typer.Typer()
archive = typer.Typer(help="Whole months of the records, copied to files.", no_args_is_help=True)
app.add_typer(archive, name="archive")

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The folder with the archived months.")]


@archive.command()
def write(
    month: Annotated[str, typer.Argument(metavar="MONTH", help="A month (UTC) like 2026-10.")],
    folder: Folder,
    var: Var = None,
) -> None:
    """Copy a month of the records to files with a manifest; the database keeps its rows."""
    from ops.commands.archive import parse_month
    from ops.commands.archive import write as write_month
    from ops.commands.progress import progress_bar

    settings, wanted = read_settings(var), parse_month(month)
    with database(settings) as dsn, progress_bar(sys.stderr) as bar:
        manifest = asyncio.run(write_month(dsn, wanted, folder, bar))
        act = on_installation("write_archive", {"month": month, "folder": str(folder.absolute())})
        asyncio.run(record_alone(dsn, operator_of(settings), act))
    for each in manifest["files"]:
        print(f"{folder / month / each['name']}: {each['rows']} rows, {each['bytes']} bytes")


@archive.command()
def verify(folder: Folder) -> None:
    """Check every file against its manifest: exit status 0 if all agree, else 1."""
    from ops.commands.archive import verify as verify_months
    from ops.commands.progress import progress_bar

    with progress_bar(sys.stderr) as bar:
        months = verify_months(folder, bar)
    number = f"{len(months)} month{'' if len(months) == 1 else 's'}"
    print(f"{number} verified: {months[0].month} to {months[-1].month}.")


@archive.command("list")
def list_months(folder: Folder, as_json: Json = False) -> None:
    """List the complete months in a folder, oldest first."""
    from ops.commands.archive import found
    from ops.commands.tables import table

    months = found(folder)
    if as_json:
        for each in months:
            print(orjson.dumps(asdict(each)).decode())
        return
    columns = ("month", "rows", "bytes", "made_at", "version")
    shown = (
        (each.month, f"{each.rows}", f"{each.size_bytes}", each.made_at, each.version) for each in months
    )
    print("\n".join(table(columns, shown)))
