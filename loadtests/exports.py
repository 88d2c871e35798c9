"""An export of many rows: `python -m loadtests.exports`.

A tenant of an installation gets ten million transactions, which are then exported and downloaded. Printed are
the time of each stage and the most memory that the API servers and this command have used.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from loadtests.filters import clients_of, fill_tenants
from loadtests.generators.history import life_of
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.front import dsn_of
from loadtests.harness.processes import command_line, resident_bytes, tree
from loadtests.options import count
from stanchion import StanchionError

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
    """The processes of the API below ``root``. Raises ChildError."""
    found = [each.pid for each in tree(root) if "api-" in command_line(each.pid)]
    if not found:
        raise ChildError("no API server was found")
    return found


async def run(folder: Path, rows: int, format_: str) -> None:
    """Everything, on an installation in ``folder``."""
    var_dir, installation = folder / "var", Installation(folder / "var", {})
    client = clients_of(await installation.start())[0]
    try:
        began = time.monotonic()
        # One row a second, so that a year has room for 31,536,000.
        await fill_tenants(dsn_of(var_dir), [life_of(client)], rows)
        print(f"{rows:,} transactions made in {time.monotonic() - began:.0f} s", flush=True)
        memory = Memory(api_servers(installation.pid))
        began = time.monotonic()
        with memory.watched():
            await _export(var_dir, folder / f"transactions.{format_}", format_)
        seconds = time.monotonic() - began
        [written] = client.exports.list()
        size, found = written["bytes"] / MEBIBYTE, written["rows"]
        print(f"{found:,} rows, {size:,.0f} MiB of {format_}, written and downloaded in {seconds:.0f} s")
        before, most = memory.before / MEBIBYTE, memory.most / MEBIBYTE
        print(f"API servers: {before:.0f} MiB before, at most {most:.0f} MiB")
        own = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"largest child process, the command included: at most {own:.0f} MiB")
    finally:
        await installation.stop()


async def _export(var_dir: Path, path: Path, format_: str) -> None:
    """Run ``stanchion export``. Raises ChildError."""
    window = ("--from", WINDOW[0], "--to", WINDOW[1], "--format", format_)
    command = ("export", "transactions", *window, "--output", str(path), "--var", str(var_dir))
    child = await asyncio.create_subprocess_exec(sys.executable, "-m", "ops", *command)
    if await child.wait() != 0:
        raise ChildError("the export has failed")


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.exports", description=__doc__)
    parser.add_argument("--rows", type=count, default=ROWS, help=f"transactions [{ROWS}]")
    parser.add_argument("--format", choices=("csv", "jsonl"), default="csv", help="[csv]")
    options = parser.parse_args(arguments)
    try:
        with TemporaryDirectory(prefix="stanchion-exports-") as folder:
            asyncio.run(run(Path(folder), options.rows, options.format))
    except (ChildError, StanchionError) as failure:
        print(f"loadtests.exports: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
