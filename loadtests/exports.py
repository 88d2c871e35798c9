"""An export of many rows: `python -m loadtests.exports`.

A tenant of an installation gets ten million transactions, which are then exported and downloaded. Printed are
the time of each stage and the most memory that the API servers and this command have used.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import httpx2

from loadtests.filters import SERVERS_FILE, clients_of, fill_tenants
from loadtests.generators.history import life_of
from loadtests.harness.processes import command_line, resident_bytes, tree
from loadtests.options import count
from ops.commands.export import ExportError, export
from ops.supervision.running_installation import RunningError, RunningInstallation
from stanchion import StanchionError
from stanchion.records import ExportFormat

ROWS: Final = 10_000_000
SAMPLE_SECONDS: Final = 0.2
WINDOW: Final = ("2026-01-01T00:00:00Z", "2026-12-31T00:00:00Z")
MEBIBYTE: Final = 1024 * 1024


class Memory:
    """Resident memory of some processes: at the beginning, and the most since."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self.before = self.most = resident_bytes(pids)
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Measure during the block."""
        thread = threading.Thread(target=self._watch, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            self.most = max(self.most, resident_bytes(self._pids))


def api_servers(root: int) -> list[int]:
    """The processes of the API below ``root``."""
    found = [each.pid for each in tree(root) if "api-" in command_line(each.pid)]
    if not found:
        raise RunningError("no API server was found")
    return found


def run(folder: Path, rows: int, format_: ExportFormat) -> None:
    """Everything, on an installation in ``folder``."""
    installation = RunningInstallation(folder / "var", {"STANCHION_AUTO_CLEAR_SECONDS": "0"})
    with installation as found:
        client = clients_of(found)[0]
        life = life_of(client)
        dsn = json.loads((installation.var_dir / SERVERS_FILE).read_bytes())["database_url"]
        began = time.monotonic()
        # One row a second, so that a year has room for 31,536,000.
        asyncio.run(fill_tenants(dsn, [life], rows))
        print(f"{rows:,} transactions made in {time.monotonic() - began:.0f} s", flush=True)
        pid = installation.pid
        assert pid is not None, "it runs"
        memory = Memory(api_servers(pid))
        stages: dict[str, float] = {}

        def reached(stage: str, done: int, total: int | None) -> None:  # noqa: ARG001 -- Progress
            stages[stage] = time.monotonic()

        began = time.monotonic()
        with memory.watched(), httpx2.Client(base_url=found["base_url"], timeout=60.0) as http:
            written = export(
                client,
                http,
                "transactions",
                from_=WINDOW[0],
                to=WINDOW[1],
                format_=format_,
                path=folder / f"transactions.{format_}",
                progress=reached,
            )
        size = written["bytes"] / MEBIBYTE
        print(f"{written['rows']:,} rows, {size:,.0f} MiB of {format_}")
        print(f"written in {stages['writing'] - began:.0f} s, ", end="")
        print(f"downloaded in {stages['downloading'] - stages['writing']:.0f} s")
        before, most = memory.before / MEBIBYTE, memory.most / MEBIBYTE
        print(f"API servers: {before:.0f} MiB before, at most {most:.0f} MiB")
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"this command: at most {own:.0f} MiB")


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.exports", description=__doc__)
    parser.add_argument("--rows", type=count, default=ROWS, help=f"transactions [{ROWS}]")
    parser.add_argument("--format", choices=("csv", "jsonl"), default="csv", help="[csv]")
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory(prefix="stanchion-exports-") as folder:
            run(Path(folder), options.rows, options.format)
    except (ExportError, RunningError, StanchionError) as failure:
        print(f"loadtests.exports: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
