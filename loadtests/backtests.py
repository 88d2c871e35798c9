"""Back-tests of many decisions: `python -m loadtests.backtests`.

The engine makes the histories of many cards of one programme: purchases, most of which are presented. They
are written to the journal of an installation, and changes are tried on them: one that turns some decisions of
nearly every card, one that turns none, and the first one again while the whole installation restarts in the
middle, whose result must be the same. Printed are the time, the CPU of the tasks alone (PostgreSQL works
beside them), and the most memory of a task. The exit status is 1 if a target is missed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from loadtests.filters import clients_of
from loadtests.generators.history import life_of
from loadtests.generators.journals import fill
from loadtests.harness.children import ChildError, Installation
from loadtests.harness.front import dsn_of
from loadtests.harness.memory import MemoryMeter
from loadtests.options import count
from loadtests.reports.command import measure, parser
from loadtests.reports.text import measured_on, table
from stanchion.inputs import BacktestChange
from stanchion.records import Backtest, BacktestScope

DECISIONS: Final = 1_000_000
WINDOW: Final = ("2026-01-01T00:00:00Z", "2026-03-01T00:00:00Z")
TURNING: Final[BacktestChange] = {"controls": {"add": [{"kind": "per_txn_cap", "amount": "98.00"}]}}
TURNING_NONE: Final[BacktestChange] = {"controls": {"add": [{"kind": "per_txn_cap", "amount": "1000.00"}]}}
LOG: Final = "log/stanchion.jsonl"
MARK: Final = "backtests"
CPU_MICROSECONDS_MAX: Final = 60.0
"""Target for one decision: a million of them in a minute on one core."""
MEMORY_MAX: Final = 512 * 1024 * 1024
"""Target for one task: its loaded code, one batch of histories, and the flips of a range."""
RESTARTED_AT: Final = 0.3
"""Share of the cards after which the installation is restarted."""
POLL_SECONDS: Final = 0.1
SECONDS_MAX: Final = 1_800.0
TASK: Final = "task"
NONE: Final = "turns none"
TURNED_MIN: Final = 0.01
"""Least share of the decisions that a turning change turns: two of a hundred purchases are above 98.00."""
RESULT: Final = ("baseline", "before", "after", "flips", "by_rule", "by_mcc", "by_day")
"""The figures of a back-test that depend on histories and change alone."""


class Measured(msgspec.Struct):
    """One back-test."""

    name: str
    decisions: int
    turned: int
    seconds: float
    cpu_us: float | None
    """CPU of the tasks for each decision; ``None`` if the log does not have all of them."""
    memory_bytes: int


class Measuring:
    """Back-tests of one programme of an installation, which can be restarted."""

    def __init__(
        self, installation: Installation, var_dir: Path, run: dict[str, Any], programme_id: str
    ) -> None:
        self._installation = installation
        self._log = var_dir / LOG
        self._client = clients_of(run)[0]
        self._programme_id = programme_id

    async def plain(self, name: str, change: BacktestChange) -> tuple[Measured, Backtest]:
        """A back-test without a fault."""
        cpu_before = _cpu_seconds(self._log)
        meter = self._meter()
        with meter.running():
            done = await asyncio.to_thread(self._wait, self._create(change))
        found = _measured(name, done, meter.most[TASK])
        found.cpu_us = 1e6 * (_cpu_seconds(self._log) - cpu_before) / max(1, found.decisions)
        return found, done

    async def restarted(self, name: str, change: BacktestChange) -> tuple[Measured, Backtest]:
        """A back-test during which the installation stops and starts again. Its tasks are killed, so the log
        does not have their CPU. Raises ChildError."""
        id_ = self._create(change)
        while not _far_enough(found := self._client.backtests.get(id_)):
            if found["state"] not in ("queued", "running"):
                raise ChildError("the back-test has ended before the restart; make more decisions")
            await asyncio.sleep(POLL_SECONDS)
        await self._installation.stop()
        self._client = clients_of(await self._installation.start())[0]
        meter = self._meter()
        with meter.running():
            done = await asyncio.to_thread(self._wait, id_)
        return _measured(name, done, meter.most[TASK]), done

    def _create(self, change: BacktestChange) -> str:
        scope: BacktestScope = {"type": "programme", "id": self._programme_id}
        return self._client.backtests.create(*WINDOW, scope=scope, change=change)["id"]

    def _wait(self, id_: str) -> Backtest:
        done = self._client.backtests.wait(id_, seconds=SECONDS_MAX)
        if done["state"] != "done":
            raise ChildError(f"the back-test has ended as {json.dumps(done['failure'])}")
        return done

    def _meter(self) -> MemoryMeter:
        return MemoryMeter(
            self._installation.pid, {TASK: lambda command: command.startswith("stanchion: task")}
        )


def _far_enough(found: Backtest) -> bool:
    progress = found["progress"]
    return progress["cards_done"] >= RESTARTED_AT * (progress["cards"] or float("inf"))


def _measured(name: str, done: Backtest, memory_bytes: int) -> Measured:
    started, completed, baseline, flips = (
        done["started_at"],
        done["completed_at"],
        done["baseline"],
        done["flips"],
    )
    if started is None or completed is None or baseline is None or flips is None:
        raise ChildError("the back-test has no figures")
    seconds = (datetime.fromisoformat(completed) - datetime.fromisoformat(started)).total_seconds()
    turned = flips["approved_to_declined"]["count"] + flips["declined_to_approved"]["count"]
    return Measured(name, baseline["decisions"], turned, seconds, None, memory_bytes)


async def run(folder: Path, decisions: int) -> tuple[str, list[str]]:
    """Everything, on an installation in ``folder``: the report and the faults."""
    var_dir = folder / "var"
    installation = Installation(var_dir, {})
    record = await installation.start()
    try:
        began = time.monotonic()
        programme_id = await fill(dsn_of(var_dir), life_of(clients_of(record)[0]).rare_card, decisions)
        _say(f"{decisions:,} decisions made in {time.monotonic() - began:.0f} s")
        measuring = Measuring(installation, var_dir, record, programme_id)
        turning, first = await measuring.plain("turns decisions of nearly every card", TURNING)
        _say(f"{turning}")
        none, _ = await measuring.plain(NONE, TURNING_NONE)
        _say(f"{none}")
        again, second = await measuring.restarted("the first one, with a restart of everything", TURNING)
        _say(f"{again}")
    finally:
        await installation.stop()
    found = [turning, none, again]
    return _report(found), _faults(found, first, second)


def _faults(found: list[Measured], first: Backtest, second: Backtest) -> list[str]:
    wrong = [name for name in RESULT if first.get(name) != second.get(name)]
    faults = [f"after the restart, {name} is another" for name in wrong]
    faults += [
        f"{each.name}: {each.turned:,} of {each.decisions:,} decisions are turned"
        for each in found
        if (each.turned >= TURNED_MIN * each.decisions) is (each.name == NONE)
    ]
    for each in found:
        if each.cpu_us is not None and each.cpu_us > CPU_MICROSECONDS_MAX:
            faults.append(f"{each.name}: {each.cpu_us:.1f} µs for each decision")
        if each.memory_bytes > MEMORY_MAX:
            faults.append(f"{each.name}: a task has used {each.memory_bytes / 2**20:.0f} MiB")
    return faults


def _report(found: list[Measured]) -> str:
    head = ("change", "decisions", "turned", "CPU of the tasks each, µs", "s", "decisions/s", "one task, MiB")
    rows = [
        (
            each.name,
            f"{each.decisions:,}",
            f"{each.turned:,}",
            "" if each.cpu_us is None else f"{each.cpu_us:.1f}",
            f"{each.seconds:.0f}",
            f"{each.decisions / each.seconds:,.0f}",
            f"{each.memory_bytes / 2**20:.0f}",
        )
        for each in found
    ]
    return f"{measured_on()}\n\n{table(head, rows)}"


def _cpu_seconds(log: Path) -> float:
    """The CPU of all tasks that have ended, with the start of their processes."""
    lines = map(json.loads, log.read_text("utf-8").splitlines())
    return sum(float(line["cpu_seconds"]) for line in lines if line.get("event") == "task_ended")


def _say(words: str) -> None:
    print(words, file=sys.stderr, flush=True)


def main(arguments: list[str]) -> int:
    """Run it; returns the exit status."""
    options = parser(MARK, __doc__)
    options.add_argument("--decisions", type=count, default=DECISIONS, help=f"[{DECISIONS}]")
    return measure(MARK, options, arguments, lambda folder, given: run(folder, given.decisions))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
