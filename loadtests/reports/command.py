"""The command of a measurement with one report: on standard output, and between its marks in a page."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from loadtests.harness.children import ChildError
from loadtests.harness.stopping import run_until_stopped, stoppable
from loadtests.reports.publish import NoMarksError, check_marks, insert
from stanchion.errors import StanchionError

Run = Callable[[Path, Namespace], Coroutine[Any, Any, tuple[str, list[str]]]]
"""Measures in a folder of its own; returns the report and the faults."""


def parser(name: str, about: str | None) -> ArgumentParser:
    """The options of every such command, ``python -m loadtests.NAME``."""
    options = ArgumentParser(prog=f"python -m loadtests.{name}", description=about)
    options.add_argument("--into", type=Path, metavar="FILE", help="put the report between its marks there")
    return options


def measure(name: str, options: ArgumentParser, arguments: Sequence[str], run: Run) -> int:
    """Run the command ``name``, which is also the name of the marks; returns its exit status. A report with
    faults is printed only."""
    given = options.parse_args(arguments)
    try:
        if given.into is not None:
            check_marks(given.into, [name])
        with stoppable(name), TemporaryDirectory(prefix=f"stanchion-{name}-") as folder:
            report, faults = run_until_stopped(run(Path(folder), given))
    except (ChildError, StanchionError, NoMarksError) as failure:
        print(f"loadtests.{name}: {failure}", file=sys.stderr)
        return 1
    print(report)
    if given.into is not None and not faults:
        insert(given.into, name, report)
    for fault in faults:
        print(f"loadtests.{name}: {fault}", file=sys.stderr)
    return 1 if faults else 0
