"""Exports of many rows: `python -m loadtests.exports`.

A tenant of an installation gets ten million transactions and about as many ledger entries, two for each
cleared transaction of the first ``ENTRIES_SHARE``.
Then each kind is exported and downloaded with ``stanchion export``. The rows and the sums of the file must be
those of the database; the net amounts of all settlement reports must be the balances of the settlement
accounts and the sums of their entries. Printed are the time and the memory of every process that takes part.
The exit status is 1 if a number is wrong or a process needs more memory than ``MEMORY_MAX``.
"""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from pathlib import Path
from typing import Final

import msgspec

from loadtests.filters import clients_of, fill_tenants
from loadtests.generators.history import life_of
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.exported import BEGIN, END, Sums, sums_of_database, sums_of_file, temporary_bytes
from loadtests.harness.front import dsn_of
from loadtests.harness.memory import MemoryMeter
from loadtests.harness.settled import Settled, settled
from loadtests.options import count
from loadtests.reports.command import measure, parser
from loadtests.reports.text import measured_on, table
from stanchion import Client

ROWS: Final = 10_000_000
KINDS: Final = ("transactions", "ledger_entries")
MARK: Final = "exports"
ENTRIES_SHARE: Final = 0.54
"""Share of the transactions that are cleared with ledger entries."""
MEBIBYTE: Final = 1024 * 1024
MEMORY_MAX: Final = 128 * MEBIBYTE
"""Anonymous memory by which an API server, or the connection that an export is read from, may grow."""
GROUPS: Final = {
    "API server": lambda command: "api-" in command,
    "PostgreSQL": lambda command: command.startswith("postgres: stanchion"),
}


class Found(msgspec.Struct):
    """One export."""

    kind: str
    file: Sums
    database: Sums
    bytes: int
    seconds: float
    growth: dict[str, int]
    """Bytes of memory by group, beyond those before it."""
    temporary: int
    """Bytes of temporary files in PostgreSQL."""

    @property
    def faults(self) -> list[str]:
        """What is wrong with it."""
        wrong = [] if self.file == self.database else [f"{self.kind}: {self.file} instead of {self.database}"]
        return wrong + [
            f"{self.kind}: {name} has grown by {size / MEBIBYTE:.0f} MiB"
            for name, size in self.growth.items()
            if size > MEMORY_MAX
        ]


async def run(folder: Path, rows: int, kinds: list[str], format_: str) -> tuple[str, list[str]]:
    """Everything, on an installation in ``folder``: the report and the faults."""
    var_dir, installation = folder / "var", Installation(folder / "var", {})
    client = clients_of(await installation.start())[0]
    try:
        began = time.monotonic()
        # One row a second, so that a year has room for 31,536,000.
        await fill_tenants(dsn_of(var_dir), [life_of(client)], rows, entries=round(ENTRIES_SHARE * rows))
        _say(f"{rows:,} transactions made in {time.monotonic() - began:.0f} s")
        found = []
        for kind in kinds:
            found.append(await _measure(installation.pid, client, folder, kind, format_))
            _say(_row_text(found[-1]))
        began = time.monotonic()
        books = await settled(client, dsn_of(var_dir))
        _say(f"{books.reports} settlement reports in {time.monotonic() - began:.0f} s")
    finally:
        await installation.stop()
    # The largest child of all: ``stanchion export``, or the supervisor.
    own = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    faults = [fault for each in found for fault in each.faults] + books.faults
    return _report(found, books, format_, own), faults


async def _measure(root: int, client: Client, folder: Path, kind: str, format_: str) -> Found:
    dsn, path = dsn_of(folder / "var"), folder / f"{kind}.{format_}"
    spilled, meter = await temporary_bytes(dsn), MemoryMeter(root, GROUPS)
    began = time.monotonic()
    with meter.running():
        await _export(folder / "var", path, kind, format_)
    seconds = time.monotonic() - began
    size = next(each["bytes"] for each in client.exports.list() if each["kind"] == kind)
    file = await asyncio.to_thread(sums_of_file, path, kind, format_)
    path.unlink()
    growth = {name: meter.most[name] - meter.before[name] for name in GROUPS}
    temporary = await temporary_bytes(dsn) - spilled
    return Found(kind, file, await sums_of_database(dsn, kind), size, seconds, growth, temporary)


async def _export(var_dir: Path, path: Path, kind: str, format_: str) -> None:
    """Run ``stanchion export``. Raises ChildError."""
    window = ("--from", BEGIN, "--to", END, "--format", format_)
    command = ("export", kind, *window, "--output", str(path), "--var", str(var_dir))
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "ops", *command)
    if await child.wait() != 0:
        raise ChildError("the export has failed")


def _report(found: list[Found], books: Settled, format_: str, own: float) -> str:
    head = ("export", "rows", "MiB", "s", "rows/s", *(f"{name}, MiB" for name in GROUPS), "temporary MiB")
    rows = [
        (
            each.kind,
            f"{each.file.rows:,}",
            f"{each.bytes / MEBIBYTE:,.0f}",
            f"{each.seconds:.0f}",
            f"{each.file.rows / each.seconds:,.0f}",
            *(f"{each.growth[name] / MEBIBYTE:+.0f}" for name in GROUPS),
            f"{each.temporary / MEBIBYTE:,.0f}",
        )
        for each in found
    ]
    right = "equal those of the database" if all(each.file == each.database for each in found) else "DIFFER"
    lines = [
        measured_on(),
        table(head, rows),
        f"- rows and sums of the downloaded {format_} files {right}",
        f"- largest child process of the command, `stanchion export` included: {own:.0f} MiB resident",
        *books.lines(),
    ]
    return "\n\n".join(lines[:2]) + "\n\n" + "\n".join(lines[2:])


def _row_text(found: Found) -> str:
    return f"{found.kind}: {found.file.rows:,} rows in {found.seconds:.0f} s; {found.growth}"


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    options = parser(MARK, __doc__)
    options.add_argument("--rows", type=count, default=ROWS, help=f"transactions [{ROWS}]")
    options.add_argument("--kinds", default=",".join(KINDS), metavar="KIND,…", help="[%(default)s]")
    options.add_argument("--format", choices=("csv", "jsonl"), default="csv", help="[csv]")
    return measure(
        MARK,
        options,
        arguments,
        lambda folder, given: run(folder, given.rows, given.kinds.split(","), given.format),
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
