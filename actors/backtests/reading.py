"""Reading histories: the cards of a range, grouped by account, and their commands in slices.

Each slice is a statement of its own, so no transaction stays open, and memory is bounded. The journal is
append-only: later slices continue earlier ones. Cards that share an account are read together once all their
decisions are committed; a card without an account goes with its replacements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from actors.backtests.store import Backtest, Range
from actors.database import DbConnection
from engine.backtests.entry import Entry
from engine.backtests.order import CommandQueues
from engine.limits import BACKTEST_ROWS_READ

ROWS_OF_CARD_MIN: Final = 16
"""Rows of one card that are read at once, at least."""


class Unit(msgspec.Struct, frozen=True):
    """Cards whose histories depend on each other."""

    card_ids: tuple[str, ...]
    covered: int
    """How many of them the back-test counts as its cards."""


class HistoryReader:
    """Reads the cards and the commands of one back-test."""

    def __init__(self, database: DbConnection, backtest: Backtest) -> None:
        self._database = database
        self._backtest = backtest

    async def units(self, claimed: Range) -> list[Unit]:
        """The units of a range. A unit with cards of several ranges belongs to the range of the first of
        them."""
        scope, programme_id = self._backtest.plan.scope, self._backtest.programme_id
        product_id = scope.id if scope.type == "card_product" else None
        bounds = (claimed.first_card, claimed.last_card)
        rows = await self._database.fetch("cards_of_range", programme_id, product_id, *bounds)
        accounts = {row["account_id"] for row in rows if row["account_id"] is not None}
        alone = [row["id"] for row in rows if row["account_id"] is None]
        sharing = await self._database.fetch("cards_of_accounts", list(accounts)) if accounts else []
        chains = await self._database.fetch("replacement_chains", alone) if alone else []
        members: dict[str, list[tuple[str, bool]]] = {}
        for row in (*sharing, *chains):
            covered = self._covers(row["id"], row["card_product_id"])
            members.setdefault(row["unit"], []).append((row["id"], covered))
        of_range = {row["id"] for row in rows}
        units = {_unit(cards) for cards in members.values() if _first_covered(cards) in of_range}
        return sorted(units, key=lambda unit: unit.card_ids)

    async def queues(self, units: Iterable[Unit]) -> list[CommandQueues]:
        """The queues of ``units`` with their first commands."""
        units = list(units)
        first = await self._read([(id_, 0) for unit in units for id_ in unit.card_ids])
        made = []
        for unit in units:
            queues = CommandQueues(unit.card_ids)
            for id_ in unit.card_ids:
                queues.add(id_, *first[id_])
            made.append(queues)
        return made

    async def fill(self, queues: CommandQueues) -> int:
        """Read on for the cards whose next command is not known yet; returns the number of rows read."""
        rows = 0
        read = await self._read([(id_, queues.last_seq(id_)) for id_ in queues.starving()])
        for id_, (entries, complete) in read.items():
            queues.add(id_, entries, complete)
            rows += len(entries)
        return rows

    def _covers(self, card_id: str, product_id: str) -> bool:
        scope = self._backtest.plan.scope
        if scope.type == "programme":
            return True
        return (product_id if scope.type == "card_product" else card_id) == scope.id

    async def _read(self, after: list[tuple[str, int]]) -> dict[str, tuple[list[Entry], bool]]:
        """The commands of each card after a number, and whether those are all."""
        limit = max(ROWS_OF_CARD_MIN, BACKTEST_ROWS_READ // max(1, len(after)))
        ids, numbers = [id_ for id_, _ in after], [number for _, number in after]
        rows = await self._database.fetch("load_commands", ids, numbers, self._backtest.until_ms, limit)
        found: dict[str, list[Entry]] = {id_: [] for id_ in ids}
        for number, *row in rows:
            id_ = ids[number - 1]
            found[id_].append(Entry(id_, *row))
        return {id_: _without_gaps(found[id_], number, limit) for id_, number in after}


def _without_gaps(entries: list[Entry], after: int, limit: int) -> tuple[list[Entry], bool]:
    """The commands up to the first gap, and whether no more follow. A gap is at the end of the window: a new
    owner's clock can be behind that of the owner before."""
    for position, entry in enumerate(entries):
        if entry.seq != after + position + 1:
            return entries[:position], True
    return entries, len(entries) < limit


def _unit(cards: list[tuple[str, bool]]) -> Unit:
    return Unit(tuple(id_ for id_, _ in cards), sum(covered for _, covered in cards))


def _first_covered(cards: list[tuple[str, bool]]) -> str:
    return min(id_ for id_, covered in cards if covered)
