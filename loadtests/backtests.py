"""A back-test of many decisions: `python -m loadtests.backtests`.

The engine makes the histories of many cards of one programme: purchases, most of which are presented. They
are written to the journal of an installation, and a change is tried on them. Printed are the time and the CPU
of a change that turns some decisions of nearly every card, and of one that turns none. CPU is that of the
tasks alone; PostgreSQL works beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from loadtests.filters import clients_of
from loadtests.generators.history import life_of
from loadtests.generators.journals import fill
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.front import dsn_of
from loadtests.options import count
from stanchion import Client, StanchionError
from stanchion.inputs import BacktestChange

DECISIONS: Final = 1_000_000
CHANGES: Final[dict[str, BacktestChange]] = {
    "turns decisions of nearly every card": {
        "controls": {"add": [{"kind": "per_txn_cap", "amount": "98.00"}]}
    },
    "turns none": {"controls": {"add": [{"kind": "per_txn_cap", "amount": "1000.00"}]}},
}
LOG: Final = "log/stanchion.jsonl"


async def run(folder: Path, decisions: int) -> None:
    """Everything, on an installation in ``folder``."""
    installation = Installation(folder / "var", {})
    client = clients_of(await installation.start())[0]
    try:
        began = time.monotonic()
        programme_id = await fill(dsn_of(folder / "var"), life_of(client).rare_card, decisions)
        print(f"{decisions:,} decisions made in {time.monotonic() - began:.0f} s", flush=True)
        for name, change in CHANGES.items():
            _measure(client, name, programme_id, change, folder / "var" / LOG)
    finally:
        await installation.stop()


def _measure(client: Client, name: str, programme_id: str, change: BacktestChange, log: Path) -> None:
    cpu_before = _cpu_seconds(log)
    created = client.backtests.create(
        "2026-01-01T00:00:00Z",
        "2026-03-01T00:00:00Z",
        scope={"type": "programme", "id": programme_id},
        change=change,
    )
    done = client.backtests.wait(created["id"])
    started, completed, baseline = done["started_at"], done["completed_at"], done["baseline"]
    if done["state"] != "done" or started is None or completed is None or baseline is None:
        raise ChildError(f"the back-test has ended as {json.dumps(done['failure'])}")
    seconds = (datetime.fromisoformat(completed) - datetime.fromisoformat(started)).total_seconds()
    decisions = baseline["decisions"]
    cpu_us = 1e6 * (_cpu_seconds(log) - cpu_before) / max(1, decisions)
    print(
        f"a change that {name}: {decisions:,} decisions in {seconds:.1f} s,"
        f" {decisions / seconds:,.0f} a second, {cpu_us:.1f} µs of CPU each",
        flush=True,
    )


def _cpu_seconds(log: Path) -> float:
    """The CPU of all tasks that have ended, with the start of their processes."""
    lines = map(json.loads, log.read_text("utf-8").splitlines())
    return sum(float(line["cpu_seconds"]) for line in lines if line.get("event") == "task_ended")


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.backtests", description=__doc__)
    parser.add_argument("--decisions", type=count, default=DECISIONS, help=f"[{DECISIONS}]")
    decisions = parser.parse_args(arguments).decisions
    try:
        with TemporaryDirectory(prefix="stanchion-backtests-") as folder:
            asyncio.run(run(Path(folder), decisions))
    except (ChildError, StanchionError) as failure:
        print(f"loadtests.backtests: {failure}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
