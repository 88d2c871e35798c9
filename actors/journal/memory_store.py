"""The in-memory twin of the database: tables, owners and locks.

It refuses what PostgreSQL refuses (``commit_batch_v3``, ``take_shards_v2`` and the constraints of
``ops/migrations``), in the same order. A batch is applied completely or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

from actors.journal.contract import BehindError, DuplicateError, Epochs, RejectedError, Rows, StaleEpochError
from actors.journal.event_pairs import events_of
from actors.journal.memory_reads import MemoryReads
from actors.journal.rows import EventRow, JournalRow, stored_row
from engine.authorization.compact_events import TYPE_OF_CODE, decision_of, event_data
from engine.decision.compact_layout import Configuration
from engine.decision.compact_reading import expanded, is_compact
from engine.limits import SHARD_COUNT

_BIGINT_MAX: Final = 2**63 - 1
_HOLD_CHANGES = ("state", "amount_minor", "expires_at")
_RULE_CHANGES = ("scope_id", "name", "state", "version", "rule", "updated_at")
_TRANSACTION_CHANGES = (
    "status",
    "hold_id",
    "approved_minor",
    "held_minor",
    "cleared_minor",
    "reversed_minor",
    "decline_reason",
    "updated_at",
    "remainder_minor",
    "closed",
)


class MemoryStore(MemoryReads):
    """The store that all ``MemoryJournal`` of one simulation share."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        super().__init__(now_ms)
        self._hosts: dict[str, asyncio.Lock] = {}
        self._shards = [asyncio.Lock() for _ in range(SHARD_COUNT)]
        self.epochs = [0] * SHARD_COUNT
        self.owners: list[str | None] = [None] * SHARD_COUNT

    # --- ownership ----------------------------------------------------------------------------------------

    def register(self, host: str) -> None:
        self._hosts.setdefault(host, asyncio.Lock())

    async def take(self, host: str, expected: Epochs) -> dict[int, int]:
        if host not in self._hosts:
            raise RejectedError("an unknown host")
        async with _held(self._shards[shard] for shard in sorted(expected)):
            if not self._current(expected):
                raise BehindError
            owners = {owner for shard in expected if (owner := self.owners[shard])}
            async with _held(self._hosts[owner] for owner in sorted(owners)):
                return self._raise_epochs(expected, host)

    async def renew(self, host: str, expected: Epochs) -> tuple[dict[int, int], bool]:
        """The epochs, and whether this call raised them. It does not if an epoch differs from
        ``expected``."""
        async with _held(self._shards[shard] for shard in sorted(expected)), self.committing(host):
            if any(self.owners[shard] != host for shard in expected):
                raise StaleEpochError
            if not self._current(expected):
                return {shard: self.epochs[shard] for shard in expected}, False
            return self._raise_epochs(expected, host), True

    async def release(self, host: str, expected: Epochs) -> None:
        async with _held(self._shards[shard] for shard in sorted(expected)):
            mine = [shard for shard in expected if self.owners[shard] == host]
            self._raise_epochs([shard for shard in mine if self.epochs[shard] == expected[shard]], None)

    def _current(self, expected: Epochs) -> bool:
        return all(self.epochs[shard] == epoch for shard, epoch in expected.items())

    def committing(self, host: str) -> asyncio.Lock:
        """The lock that a commit of ``host`` holds. A take of its shards waits for it."""
        return self._hosts[host]

    def _raise_epochs(self, shards: Collection[int], host: str | None) -> dict[int, int]:
        for shard in shards:
            self.epochs[shard] += 1
            self.owners[shard] = host
        return {shard: self.epochs[shard] for shard in shards}

    # --- commit -------------------------------------------------------------------------------------------

    def check_fence(self, host: str, rows: Rows) -> None:
        """Raise ``StaleEpochError`` unless ``host`` owns all shards of ``rows`` with the epochs of
        ``rows``."""
        for shard, epoch in rows.shards.items():
            if (self.owners[shard], self.epochs[shard]) != (host, epoch):
                raise StaleEpochError

    def apply(self, rows: Rows) -> None:
        """Write all rows, or raise and write none."""
        self._check(rows)
        self.decision_configurations.put(rows.configurations.values())
        self.journal.put(self._full(row) for row in rows.journal)
        self.command_keys |= {row[3]: self.journal.rows[row[0], row[1]] for row in rows.journal}
        self.programmes.put(rows.programmes.values(), ("version", "seq", "config", "outage"))
        self.programme_changes += rows.programmes
        self.outages.put(rows.outages.values(), ("used_minor", "ended_at"))
        self.stand_ins.put(rows.stand_ins)
        self.cards.put(rows.cards.values(), ("state", "state_reason", "controls", "cardholder_active"))
        self.card_replacements.put(rows.replacements)
        for rule in rows.rules:
            self.rule_versions.setdefault((rule.id, rule.version), rule.rule)
        self.authorization_rules.put(rows.rules, _RULE_CHANGES)
        self.rule_matches.put(rows.rule_matches)
        self.card_usage.put(rows.usage.values(), self.card_usage.columns)
        self.declared_balances.put(rows.declared.values(), self.declared_balances.columns)
        self.accounts.put(rows.accounts.values(), ("posted_minor", "held_minor", "version"))
        self.holds.put(rows.holds)
        self.transactions.put(rows.transactions)
        self._lapse(rows.lapsed)
        for row in self.holds.read(rows.changed_holds.values()):
            hold = self.holds.rows.get(row["id"])
            if hold is not None and hold["state"] == "held":
                hold |= {name: row[name] for name in _HOLD_CHANGES if row[name] is not None}
        self.transactions.put(rows.changed_transactions.values(), _TRANSACTION_CHANGES)
        self.tombstones.put(rows.tombstones)
        self.ledger_entries.put(rows.entries)
        self.events.put(self._with_data(event, rows) for row in rows.events for event in events_of(row))
        self.idempotency.put(rows.idempotency, self.idempotency.columns)
        self.audit_log.put(rows.acts)

    def _full(self, row: JournalRow) -> JournalRow:
        """``row`` as the view ``journal`` shows it."""
        texts = expanded(stored_row(row), self._configuration)
        return row._replace(**texts._asdict())

    def _configuration(self, digest: str) -> Configuration:
        return Configuration(**self.decision_configurations.rows[digest])

    def _with_data(self, event: EventRow, rows: Rows) -> EventRow:
        """``event`` as the view ``events`` shows it."""
        if event.data is not None:
            return event
        type_ = TYPE_OF_CODE[event.type]
        about = decision_of(event.id, type_)
        # Follow-ups in the same batch name the authorization, too.
        [row] = [each for each in rows.journal if each.authorization_id == about and is_compact(each.command)]
        card = self.cards.rows[row.actor_id]
        data = event_data(type_, stored_row(row), card["programme_id"], card["account_id"])
        return event._replace(type=type_, data=data)

    def _lapse(self, lapsed: dict[str, tuple[str, int]]) -> None:
        for hold_id, (authorization_id, lapsed_ms) in lapsed.items():
            hold = self.holds.rows.get(hold_id)
            if hold is not None and hold["state"] == "held":
                hold["state"] = "lapsed"
            transaction = self.transactions.rows.get(authorization_id)
            if transaction is not None:
                ended = "cleared" if transaction["cleared_minor"] else "lapsed"
                transaction |= {"status": ended, "held_minor": 0, "updated_at": lapsed_ms}

    def _check(self, rows: Rows) -> None:
        self.journal.refuse_known(rows.journal)
        self.stand_ins.refuse_known(rows.stand_ins)
        keys = [row["command_key"] for row in self.journal.read(rows.journal)]
        if len(set(keys)) < len(keys) or not self.command_keys.keys().isdisjoint(keys):
            raise DuplicateError("journal_command_key")
        for card_id, seq in rows.usage_before.items():
            absent = {"seq": 0 if card_id in rows.cards else None}
            if self.card_usage.rows.get(card_id, absent)["seq"] != seq:
                raise BehindError
        for account_id, version in rows.accounts_before.items():
            if self.accounts.rows.get(account_id, {"version": 0})["version"] != version:
                raise BehindError
        for row in self.accounts.read(rows.accounts.values()):
            if row["held_minor"] < 0 or abs(row["posted_minor"]) > _BIGINT_MAX:
                raise RejectedError("a balance out of range")
        self.holds.refuse_known(rows.holds)
        self.transactions.refuse_known(rows.transactions)
        self.ledger_entries.refuse_known(rows.entries)
        self.events.refuse_known(rows.events)
        self.card_replacements.refuse_known(rows.replacements)
        self.rule_matches.refuse_known(rows.rule_matches)
        self.audit_log.refuse_known(rows.acts)
        # ``created_at`` is the time on the host's clock.
        self.idempotency.refuse_known(each for each in rows.idempotency if self.response(each[0], each[-1]))


@asynccontextmanager
async def _held(locks: Iterable[asyncio.Lock]) -> AsyncIterator[None]:
    """Hold all ``locks``, acquired in the given order."""
    async with AsyncExitStack() as stack:
        for lock in locks:
            await stack.enter_async_context(lock)
        yield
