"""Reading histories: the cards of a range, grouped by account, and their commands in slices.

Each slice is a statement of its own, so no transaction stays open, and memory is bounded. The journal is
append-only: later slices continue earlier ones. Cards that share an account are read together once all their
decisions are committed; a card without an account goes with its replacements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from actors.backtests.store import Backtest, Range
from actors.database import DbConnection
from engine.backtests.entry import CompactEntry, Entry, JournalEntry
from engine.backtests.order import CommandQueues
from engine.decision.compact_layout import Configuration, StoredRow
from engine.decision.compact_reading import configuration_named, is_compact
from engine.decision.compact_values import KnownConfiguration, known_configuration
from engine.limits import BACKTEST_ROWS_READ, CONFIGURATIONS_CACHED_MAX

_COMMAND: Final = 6
_INPUTS: Final = 7
"""Columns of ``load_commands``; an index costs half as much as a name."""
ROWS_OF_CARD_MIN: Final = 16
"""Rows of one card that are read at once, at least."""


class Unit(msgspec.Struct, frozen=True):
    """Cards whose histories depend on each other."""

    card_ids: tuple[str, ...]
    covered: int
    """How many of them the back-test counts as its cards."""
    commands: int
    """How many commands their journals have now."""


class HistoryReader:
    """Reads the cards and the commands of one back-test."""

    def __init__(self, database: DbConnection, backtest: Backtest) -> None:
        self._database = database
        self._backtest = backtest
        self._configurations: dict[str, KnownConfiguration] = {}

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
        members: dict[str, list[_Member]] = {}
        for row in (*sharing, *chains):
            covered = self._covers(row["id"], row["card_product_id"])
            members.setdefault(row["unit"], []).append(_Member(row["id"], covered, row["commands"]))
        of_range = {row["id"] for row in rows}
        units = {_unit(cards) for cards in members.values() if _first_covered(cards) in of_range}
        return sorted(units, key=lambda unit: unit.card_ids)

    async def queues(self, units: Sequence[Unit]) -> list[CommandQueues]:
        """The queues of ``units`` with their first commands: with all of them, if they fit into one read."""
        ids = [id_ for unit in units for id_ in unit.card_ids]
        fits = sum(unit.commands for unit in units) <= BACKTEST_ROWS_READ
        # One more than a journal has shows that no more commands follow.
        most = max(unit.commands for unit in units) + 1 if fits else 0
        first = await self._read([(id_, 0) for id_ in ids], most)
        made = []
        for unit in units:
            queues = CommandQueues(unit.card_ids)
            for id_ in unit.card_ids:
                queues.add(id_, *first[id_])
            made.append(queues)
        return made

    async def fill(self, queues: CommandQueues, card_ids: Sequence[str]) -> int:
        """Read on for ``card_ids``; returns the number of rows read."""
        rows = 0
        read = await self._read([(id_, queues.last_seq(id_)) for id_ in card_ids])
        for id_, (entries, complete) in read.items():
            queues.add(id_, entries, complete)
            rows += len(entries)
        return rows

    async def _load_configurations(self, rows: Sequence[Any]) -> None:
        """Read the configurations that compact rows name and that are not known yet."""
        named = {configuration_named(row[_INPUTS]) for row in rows if is_compact(row[_COMMAND])}
        missing = named.difference(self._configurations)
        if not missing:
            return
        if len(self._configurations) > CONFIGURATIONS_CACHED_MAX:
            self._configurations.clear()
            missing = named
        for row in await self._database.fetch("load_configurations", list(missing)):
            self._configurations[row["digest"]] = known_configuration(Configuration(*row))

    def _entry(self, card_id: str, row: Any) -> JournalEntry:
        """A command. Without its configuration a decision has no inputs, and the back-test fails: it cannot
        be reproduced."""
        _, seq, at_ms, kind, command_key, fingerprint, command, inputs, decision, reply, about = row
        if not is_compact(command):
            return Entry(card_id, seq, at_ms, kind, command, inputs, decision)
        stored = StoredRow(
            card_id, seq, command_key, fingerprint, command, inputs, decision, reply, at_ms, about
        )
        configuration = self._configurations.get(configuration_named(inputs))
        return CompactEntry(card_id, seq, at_ms, kind, stored, configuration)

    def _covers(self, card_id: str, product_id: str) -> bool:
        scope = self._backtest.plan.scope
        if scope.type == "programme":
            return True
        return (product_id if scope.type == "card_product" else card_id) == scope.id

    async def _read(
        self, after: list[tuple[str, int]], least: int = 0
    ) -> dict[str, tuple[list[JournalEntry], bool]]:
        """The commands of each card after a number, at least ``least``, and whether those are all."""
        limit = max(ROWS_OF_CARD_MIN, BACKTEST_ROWS_READ // max(1, len(after)), least)
        ids, numbers = [id_ for id_, _ in after], [number for _, number in after]
        rows = await self._database.fetch("load_commands", ids, numbers, self._backtest.until_ms, limit)
        await self._load_configurations(rows)
        found: dict[str, list[JournalEntry]] = {id_: [] for id_ in ids}
        for row in rows:
            id_ = ids[row[0] - 1]
            found[id_].append(self._entry(id_, row))
        return {id_: _without_gaps(found[id_], number, limit) for id_, number in after}


def _without_gaps(entries: list[JournalEntry], after: int, limit: int) -> tuple[list[JournalEntry], bool]:
    """The commands up to the first gap, and whether no more follow. A gap is at the end of the window: a new
    owner's clock can be behind that of the owner before."""
    for position, entry in enumerate(entries):
        if entry.seq != after + position + 1:
            return entries[:position], True
    return entries, len(entries) < limit


class _Member(NamedTuple):
    id: str
    covered: bool
    commands: int


def _unit(cards: list[_Member]) -> Unit:
    covered, commands = sum(each.covered for each in cards), sum(each.commands for each in cards)
    return Unit(tuple(each.id for each in cards), covered, commands)


def _first_covered(cards: list[_Member]) -> str:
    return min(each.id for each in cards if each.covered)
