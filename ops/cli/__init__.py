"""The ``stanchion`` command. Every command takes ``--var DIR``, the folder of the installation that it works
on.

Exit status: 0 after success; 1 for an expected failure, with one line on stderr; 2 for wrong usage; 3 when
the command worked and its answer is no (``options.NEGATIVE``); 130 after Ctrl-C. A traceback means a bug.

Commands import their code when they are called: importing everything would delay each start by a second.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ops.cli import access, archives, custody, events, networks, records, running, watching
from ops.cli.running import API_FACTORY, PORT_SETTINGS
from stanchion.version import __version__

__all__ = ["API_FACTORY", "PORT_SETTINGS", "app", "main"]

app = typer.Typer(
    epilog="Exit status: 0 success, 1 failure (one line says why), 2 wrong usage, 3 the answer is no"
    " (declined, not running), 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
for area in (running, watching, records, events, networks, access, custody, archives):
    app.add_typer(area.app)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"stanchion {__version__}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Stanchion: a card issuing platform. `stanchion up` starts everything on this machine."""


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
