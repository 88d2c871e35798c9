"""The rows of a back-test: its ranges, their progress and results, and its flips.

A task works on a range while its lease lasts, and extends the lease as it goes on. A task whose lease another
one has taken, or whose back-test was cancelled, can write nothing more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from actors.database import DbConnection, read_statements
from engine.backtests.plan import Plan
from engine.backtests.tally import Flip, Tally
from engine.commands import ProgrammeCommand
from engine.limits import BACKTEST_ATTEMPTS_MAX, BACKTEST_LEASE_SECONDS, COMMIT_TIMEOUT_MS
from engine.replay.programmes import ProgrammeVersions

STATEMENT_MS: Final = 30_000
SETTLE_SECONDS: Final = COMMIT_TIMEOUT_MS / 1000 + 0.5
"""Time after an instant at which every decision before it is committed, or never will be."""

_decode_plan: Final = msgspec.json.Decoder(Plan).decode
_decode_command: Final = msgspec.json.Decoder(ProgrammeCommand).decode
_encode: Final = msgspec.json.Encoder().encode


class LeaseLostError(Exception):
    """Another task has taken the range, or the back-test has ended."""


class Backtest(msgspec.Struct, frozen=True):
    """A running back-test."""

    id: str
    programme_id: str
    plan: Plan
    until_ms: int
    """The end of its histories: that of the window, or its start."""
    settled_in: float
    """Seconds until all decisions before ``until_ms`` are committed."""
    card_velocities: bool
    """Whether rules of single cards have, or had, velocities."""
    flips: int
    """Flips stored so far."""


class Range(msgspec.Struct, frozen=True):
    """A claimed range of cards, both ends included."""

    number: int
    attempt: int
    first_card: str
    last_card: str
    cards: int


def open_connection(dsn: str) -> DbConnection:
    """The connection of a task."""
    statements = read_statements(Path(__file__).parent / "sql")
    return DbConnection(dsn, "stanchion-backtest", statements, timeout_ms=STATEMENT_MS)


class BacktestStore:
    """Every method raises DatabaseUnavailableError, and those about a range LeaseLostError."""

    def __init__(self, database: DbConnection, backtest_id: str) -> None:
        self._database = database
        self._id = backtest_id

    async def find(self) -> Backtest | None:
        """The back-test, if it runs."""
        rows = await self._database.fetch("find_backtest", self._id, SETTLE_SECONDS)
        if not rows:
            return None
        row = rows[0]
        plan = _decode_plan(row["plan"])
        return Backtest(
            self._id,
            row["programme_id"],
            plan,
            row["until_ms"],
            row["settled_in"],
            row["card_velocities"],
            row["flips"],
        )

    async def programmes(self, programme_id: str) -> ProgrammeVersions:
        """All versions of the programme."""
        versions = ProgrammeVersions()
        for row in await self._database.fetch("load_programme", programme_id):
            versions.add(programme_id, _decode_command(row["command"]), row["at_ms"])
        return versions

    async def claim(self) -> Range | None:
        """Take the next range, if there is one. Flips of earlier attempts at it are deleted."""
        values = (self._id, BACKTEST_LEASE_SECONDS, BACKTEST_ATTEMPTS_MAX)
        rows = await self._database.fetch("claim_range", *values)
        if not rows:
            return None
        claimed = Range(**rows[0])
        if claimed.attempt > 1:
            await self._database.fetch("clear_flips", self._id, claimed.number, claimed.attempt)
        return claimed

    async def keep(self, claimed: Range, cards_done: int) -> None:
        """Extend the lease."""
        values = (self._id, claimed.number, claimed.attempt, cards_done, BACKTEST_LEASE_SECONDS)
        if not await self._database.fetch("keep_range", *values):
            raise LeaseLostError

    async def complete(self, claimed: Range, tally: Tally) -> None:
        """Store the figures of a range."""
        result = _encode(tally).decode()
        if not await self._database.fetch(
            "complete_range", self._id, claimed.number, claimed.attempt, result
        ):
            raise LeaseLostError

    async def add_flips(self, claimed: Range, flips: list[Flip]) -> None:
        """Store flips of a range."""
        columns = [
            [getattr(flip, name) for flip in flips]
            for name in (
                "id",
                "authorization_id",
                "card_id",
                "at_ms",
                "operation",
                "direction",
                "rule",
                "amount_minor",
                "currency",
                "mcc",
                "before",
                "after",
            )
        ]
        values = (self._id, claimed.number, claimed.attempt, *columns)
        if flips and not await self._database.fetch("insert_flips", *values):
            raise LeaseLostError
