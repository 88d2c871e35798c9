"""Options and small steps that several commands share."""

from __future__ import annotations

import asyncio
import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from actors.settings import Settings, unknown_variables
from ops.database.operator_acts import LOGGED_IN, OperatorAct, operator_of, record_alone
from ops.supervision.installation import RUN_FILE, SERVERS_FILE, database

if TYPE_CHECKING:
    from stanchion import Client

NEGATIVE: Final = 3
"""Exit status of a command that works and whose answer is no: the spend is declined, or the installation
does not run or is not ready."""

COMMAND: Final = "command"
"""The process name of commands in the log."""

Var = Annotated[
    Path | None, typer.Option("--var", metavar="DIR", help="State folder of the installation [default: var].")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")]
Mode = Annotated[str, typer.Option(help="test or live.")]
Since = Annotated[str | None, typer.Option(help="An age like 30m, 2h or 3d, or an instant of ISO 8601.")]
Limit = Annotated[int, typer.Option(min=1, max=10_000, help="Number of rows.")]


def read_settings(var: Path | None, process: str = COMMAND, **overrides: object) -> Settings:
    """The settings of this command; options override the environment. Its acts are in the log of the
    installation, under the name ``process``. Raises SettingsError."""
    for name in unknown_variables(os.environ):
        print(f"stanchion: {name} is not a setting; it is ignored", file=sys.stderr)
    settings = Settings.load(**({"var_dir": var} if var is not None else {}), **overrides)
    LOGGED_IN.set((settings.var_dir, process))
    return settings


def client_of(var: Path | None, mode: str = "test") -> Client:
    """The first admin client of ``run.json`` in ``mode``. Raises StanchionError if no installation runs."""
    from stanchion import Client

    return Client.of_installation(read_settings(var).var_dir / RUN_FILE, mode=mode)


def record(settings: Settings, act: OperatorAct) -> None:
    """Record an act that takes place outside the database, which runs meanwhile."""
    if settings.database_url is None and not (settings.var_dir / SERVERS_FILE).exists():
        print("stanchion: no database is known here, so the audit log has no entry for this", file=sys.stderr)
        return
    with database(settings) as dsn:
        asyncio.run(record_alone(dsn, operator_of(settings), act))


def instant(given: str | None) -> str | None:
    """The instant (ISO 8601) of an age or an instant; ``None`` stays. Raises ResendError."""
    from ops.commands.resend import instant_of

    return None if given is None else instant_of(given, datetime.now(UTC))


def one_of(known: tuple[Any, ...], given: str, hint: str) -> Any:
    """``given`` if it is one of ``known``; a usage error at ``hint`` otherwise."""
    if given not in known:
        raise typer.BadParameter(f"one of {', '.join(known)}", param_hint=hint)
    return given
