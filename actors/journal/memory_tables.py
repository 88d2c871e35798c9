"""The tables of the in-memory twin, with the keys and the columns of the database."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from actors.journal.contract import DuplicateError
from actors.journal.rows import (
    AccountRow,
    ActRow,
    CardRow,
    DeclaredRow,
    EntryRow,
    EventRow,
    HoldRow,
    IdempotencyRow,
    JournalRow,
    OutageRow,
    ProgrammeRow,
    ReplacementRow,
    RuleMatchRow,
    RuleRow,
    StandInRow,
    TombstoneRow,
    TransactionRow,
    UsageRow,
)
from engine.decision.compact_layout import Configuration

Row = dict[str, Any]


class Table:
    """The rows of one SQL table by primary key, as dictionaries in the order of the columns. ``row`` is the
    class of the rows that a commit writes."""

    def __init__(self, name: str, row: type[tuple[Any, ...]], key: str = "id") -> None:
        self.name = name
        self.columns: tuple[str, ...] = row._fields  # type: ignore[attr-defined]
        self.key = itemgetter(*key.split())
        self.rows: dict[Any, Row] = {}

    def read(self, values: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Rows as dictionaries."""
        return [dict(zip(self.columns, each, strict=True)) for each in values]

    def refuse_known(self, values: Iterable[tuple[Any, ...]]) -> None:
        """Raise ``DuplicateError`` if a primary key exists or appears twice."""
        keys = [self.key(row) for row in self.read(values)]
        if len(set(keys)) < len(keys) or not self.rows.keys().isdisjoint(keys):
            raise DuplicateError(f"{self.name}_pkey")

    def put(self, values: Iterable[tuple[Any, ...]], changes: tuple[str, ...] = ()) -> None:
        """Insert rows. Of rows that exist, update the columns ``changes``."""
        for row in self.read(values):
            known = self.rows.setdefault(self.key(row), row)
            known.update({name: row[name] for name in changes})


class MemoryTables:
    """All tables that a commit writes."""

    def __init__(self) -> None:
        self.journal = Table("journal", JournalRow, key="actor_id seq")
        self.programmes = Table("programmes", ProgrammeRow)
        self.outages = Table("outages", OutageRow, key="id period")
        self.stand_ins = Table("stand_ins", StandInRow)
        self.cards = Table("cards", CardRow)
        self.card_replacements = Table("card_replacements", ReplacementRow, key="card_id")
        self.authorization_rules = Table("authorization_rules", RuleRow)
        self.rule_matches = Table("rule_matches", RuleMatchRow, key="rule_id decision_id")
        self.card_usage = Table("card_usage", UsageRow, key="card_id")
        self.declared_balances = Table("declared_balances", DeclaredRow, key="card_id")
        self.accounts = Table("accounts", AccountRow)
        self.holds = Table("holds", HoldRow)
        self.tombstones = Table("tombstones", TombstoneRow, key="card_id reference")
        self.transactions = Table("transactions", TransactionRow)
        self.ledger_entries = Table("ledger_entries", EntryRow)
        self.events = Table("events", EventRow, key="tenant_id live id")
        self.idempotency = Table("idempotency", IdempotencyRow, key="key_digest")
        self.audit_log = Table("audit_log", ActRow)
        self.decision_configurations = Table("decision_configurations", Configuration, key="digest")
        self.command_keys: dict[bytes, Row] = {}
        """Index of ``journal`` by command key."""
        self.rule_versions: dict[tuple[str, int], str] = {}
        """The table ``authorization_rule_versions``: JSON of a rule by id and version."""
        self.programme_changes: list[str] = []
        """Ids of programmes in the order of their writes."""
