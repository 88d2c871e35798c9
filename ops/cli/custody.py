"""Commands about applicants' data and card numbers in custody."""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from actors.vault import Vault
from engine.kyc.flows import PURPOSES
from ops.cli.options import Var, read_settings
from ops.database.operator_acts import operator_of
from ops.supervision.installation import database

app = typer.Typer()
kyc = typer.Typer(
    help="Applicants' data in custody: erase it, read it (recorded), reseal its keys.", no_args_is_help=True
)
app.add_typer(kyc, name="kyc")
custody = typer.Typer(help="Card numbers and applicants' data in custody.", no_args_is_help=True)
app.add_typer(custody, name="custody")


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
