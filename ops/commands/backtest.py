"""``stanchion backtest``: try a change of controls and rules on recorded decisions, also as a step of CI."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

from stanchion import Client
from stanchion.inputs import BacktestChange
from stanchion.records import Backtest, BacktestScope, BacktestSide, FlipCounts

POLL_SECONDS: Final = 0.2
ROWS_SHOWN: Final = 10
"""Rows of each table."""


class BacktestError(Exception):
    """The back-test cannot be run. The message is one line."""


@dataclass(frozen=True)
class Limits:
    """Shares from 0 to 1 that a change may not exceed; ``None`` is no limit."""

    approved_lost: float | None = None
    """Of the decisions that were approved, those that the change declines."""
    newly_approved: float | None = None
    """The share of declined decisions that the change approves."""


def read_change(path: Path) -> BacktestChange:
    """The change in a JSON file. Raises BacktestError."""
    try:
        change = json.loads(path.read_bytes())
    except OSError as failure:
        raise BacktestError(f"{path}: {failure.strerror}") from None
    except ValueError:
        raise BacktestError(f"{path} is not JSON") from None
    if not isinstance(change, dict):
        raise BacktestError(f"{path} is not a JSON object")
    return cast(BacktestChange, change)


def parse_share(text: str | None) -> float | None:
    """The share of ``0.5%``. Raises BacktestError."""
    if text is None:
        return None
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = -1.0
    if not text.endswith("%") or not 0 <= percent <= 100:
        raise BacktestError(f"{text} is not a percentage like 0.5%")
    return percent / 100


def run(
    client: Client,
    console: Console,
    change: BacktestChange,
    scope: BacktestScope,
    window: tuple[str, str],
    *,
    assume_presented: bool = True,
) -> Backtest:
    """Run a back-test with a progress bar; Ctrl-C cancels it. Raises BacktestError unless it is done, and
    StanchionError when the API refuses it."""
    begin, end = window
    created = client.backtests.create(
        begin, end, scope=scope, change=change, assume_presented=assume_presented
    )
    try:
        done = _wait(client, console, created)
    except KeyboardInterrupt:
        client.backtests.cancel(created["id"])
        raise
    if done["state"] != "done":
        raise BacktestError(f"the back-test {done['id']} has {_ending(done)}")
    return done


def _ending(ended: Backtest) -> str:
    return "been cancelled" if ended["state"] == "cancelled" else f"failed: {ended['failure']}"


def _wait(client: Client, console: Console, backtest: Backtest) -> Backtest:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        cards = bar.add_task("cards", total=None)
        while backtest["state"] in ("queued", "running"):
            progress = backtest["progress"]
            bar.update(cards, completed=progress["cards_done"], total=progress["cards"])
            time.sleep(POLL_SECONDS)
            backtest = client.backtests.get(backtest["id"])
    return backtest


def report(console: Console, done: Backtest) -> None:
    """Print the figures of a back-test that is done."""
    before, after, flips, baseline = done["before"], done["after"], done["flips"], done["baseline"]
    assert before is not None, "figures of a back-test that is done"
    assert after is not None, "figures of a back-test that is done"
    assert flips is not None, "figures of a back-test that is done"
    assert baseline is not None, "figures of a back-test that is done"
    fate = "presented in full" if done["assume_presented"] else "lapsed"
    console.print(f"Back-test {done['id']}: {baseline['decisions']:,} decisions, all reproduced.")
    if baseline["cards_left_out"]:
        console.print(f"{baseline['cards_left_out']:,} cards were left out.")
    console.print(f"Purchases that only the change approves count as {fate}.")
    _sides(console, before, after, done["currency"])
    _flips(console, "flips", [("all", flips)])
    _flips(console, "rule", [(row["rule"], row) for row in done["by_rule"] or []])
    _flips(console, "MCC", [(row["mcc"], row) for row in done["by_mcc"] or []])


def _sides(console: Console, before: BacktestSide, after: BacktestSide, currency: str) -> None:
    table = Table("", "approved", "declined", f"approved {currency}")
    for name, side in (("before", before), ("after", after)):
        table.add_row(name, f"{side['approved']:,}", f"{side['declined']:,}", side["approved_amount"])
    console.print(table)


def _flips(console: Console, title: str, rows: list[tuple[str, FlipCounts]]) -> None:
    if not rows:
        return
    # Names of rules are long, and their ends tell them apart: they are folded and not cut.
    names = Column(title, overflow="fold")
    table = Table(names, "approved →\ndeclined", "amount", "declined →\napproved", "amount")
    for name, flips in rows[:ROWS_SHOWN]:
        lost, gained = flips["approved_to_declined"], flips["declined_to_approved"]
        table.add_row(name, f"{lost['count']:,}", lost["amount"], f"{gained['count']:,}", gained["amount"])
    console.print(table)


def broken_limits(done: Backtest, limits: Limits) -> list[str]:
    """One line for each limit that the change exceeds."""
    before: Any = done["before"]
    flips: Any = done["flips"]
    checks = (
        ("--max-approved-lost", limits.approved_lost, flips["approved_to_declined"], before["approved"]),
        ("--max-newly-approved", limits.newly_approved, flips["declined_to_approved"], before["declined"]),
    )
    lines = []
    for name, limit, turned, all_ in checks:
        share = turned["count"] / all_ if all_ else 0.0
        if limit is not None and share > limit:
            lines.append(f"{name} {limit:.3%} is exceeded: {turned['count']:,} of {all_:,}, {share:.3%}")
    return lines
