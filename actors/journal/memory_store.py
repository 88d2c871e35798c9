"""What a database keeps for the journal, in memory: tables, owners and locks.

Everything is refused that PostgreSQL refuses (``commit_batch_v2``, ``take_shards_v2`` and the constraints of
``ops/migrations``), in the same order, and a batch happens whole or not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from operator import itemgetter
from typing import Any, Final

import msgspec

from actors.clock import SystemClock
from actors.journal.contract import (
    BehindError,
    DuplicateError,
    RejectedError,
    Rows,
    StaleEpochError,
    Stored,
    decode_config,
    decode_controls,
    decode_outage,
)
from engine.cards.account import Account, place_hold
from engine.cards.authorization import Authorization, Increment
from engine.cards.card import Card, DeclaredBalance
from engine.cards.hold import Hold
from engine.commands import is_message, reference_of_message
from engine.decision.inputs import Inputs
from engine.ids import shard_of
from engine.instant import DAY_MS
from engine.limits import (
    ACTIVATION_ANSWERS,
    IDEMPOTENCY_RETENTION_HOURS,
    LIFE_MEMBERS_MAX,
    SHARD_COUNT,
    TOMBSTONE_DAYS,
)
from engine.programmes.programme import Programme

Row = dict[str, Any]
decode_inputs = msgspec.json.Decoder(Inputs).decode
replace = msgspec.structs.replace

_RETENTION_MS: Final = IDEMPOTENCY_RETENTION_HOURS * 3_600_000
_BIGINT_MAX: Final = 2**63 - 1


_HOLD_CHANGES = ("state", "amount_minor", "expires_at")
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


class Table:
    """Rows by primary key, as dictionaries in the column order of the SQL table; instants are
    milliseconds."""

    def __init__(self, name: str, columns: str, key: str = "id") -> None:
        self.name = name
        self.columns = tuple(columns.split())
        self.key = itemgetter(*key.split())
        self.rows: dict[Any, Row] = {}

    def read(self, values: Iterable[tuple[Any, ...]]) -> list[Row]:
        """Rows as dictionaries."""
        return [dict(zip(self.columns, each, strict=True)) for each in values]

    def refuse_known(self, values: Iterable[tuple[Any, ...]]) -> None:
        """``DuplicateError`` if a key is taken, or comes twice."""
        keys = [self.key(row) for row in self.read(values)]
        if len(set(keys)) < len(keys) or not self.rows.keys().isdisjoint(keys):
            raise DuplicateError(f"{self.name}_pkey")

    def put(self, values: Iterable[tuple[Any, ...]], changes: tuple[str, ...] = ()) -> None:
        """Insert rows; of those that exist, ``changes`` alone are taken over."""
        for row in self.read(values):
            known = self.rows.setdefault(self.key(row), row)
            known.update({name: row[name] for name in changes})


class MemoryStore:
    """What a database keeps: tables, owners and locks. ``now_ms`` is the database's own clock."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        self._now_ms = now_ms or SystemClock().now_ms
        self._hosts: dict[str, asyncio.Lock] = {}
        self._shards = [asyncio.Lock() for _ in range(SHARD_COUNT)]
        self.epochs = [0] * SHARD_COUNT
        self.owners: list[str | None] = [None] * SHARD_COUNT
        self.command_keys: dict[bytes, Row] = {}
        self.programme_changes: list[str] = []
        """Ids of programmes in the order in which they were written."""
        self.journal = Table(
            "journal",
            "actor_id seq epoch command_key fingerprint kind command inputs decision reply recorded_at"
            " authorization_id",
            key="actor_id seq",
        )
        self.programmes = Table(
            "programmes", "id tenant_id live version seq config decision_secret_sealed outage"
        )
        self.outages = Table(
            "outages",
            "id period tenant_id live programme_id currency used_minor started_at ended_at",
            key="id period",
        )
        self.stand_ins = Table(
            "stand_ins",
            "id tenant_id live programme_id card_id authorization_id outage_id decided_at decision rule"
            " trigger amount_minor currency mcc exposure_minor budget_used_minor budget_limit_minor"
            " response_code stan rrn",
        )
        self.cards = Table(
            "cards",
            "id tenant_id live programme_id card_product_id cardholder_id account_id network currency iin"
            " last4 pan_ref exp_month exp_year cvk_generation state state_reason controls cardholder_active"
            " created_at",
        )
        self.card_usage = Table(
            "card_usage", "card_id seq day day_count day_amount_minor cvv2_failures", key="card_id"
        )
        self.declared_balances = Table(
            "declared_balances", "card_id balance_minor consumed_minor declared_at", key="card_id"
        )
        self.accounts = Table(
            "accounts",
            "id tenant_id live programme_id kind currency posted_minor held_minor version",
        )
        self.holds = Table("holds", "id account_id card_id authorization_id amount_minor state expires_at")
        self.tombstones = Table("tombstones", "card_id reference recorded_at", key="card_id reference")
        self.transactions = Table(
            "transactions",
            "id tenant_id live card_id cardholder_id programme_id seq kind status hold_id currency"
            " requested_minor approved_minor held_minor cleared_minor reversed_minor decline_reason"
            " created_at updated_at network_txn_id day remainder_minor closed",
        )
        self.ledger_entries = Table(
            "ledger_entries",
            "id transfer_id account_id direction amount_minor currency authorization_id occurred_at",
        )
        self.events = Table("events", "id tenant_id live type created_at data txid", "tenant_id live id")
        self.idempotency = Table(
            "idempotency", "key_digest fingerprint status body created_at", key="key_digest"
        )

    # --- ownership ----------------------------------------------------------------------------------------

    def register(self, host: str) -> None:
        self._hosts.setdefault(host, asyncio.Lock())

    async def take(self, host: str, known: Mapping[int, int]) -> dict[int, int]:
        if host not in self._hosts:
            raise RejectedError("an unknown host")
        async with _held(self._shards[shard] for shard in sorted(known)):
            if not self._current(known):
                raise BehindError
            owners = {owner for shard in known if (owner := self.owners[shard])}
            async with _held(self._hosts[owner] for owner in sorted(owners)):
                return self._raise_epochs(known, host)

    async def renew(self, host: str, known: Mapping[int, int]) -> tuple[dict[int, int], bool]:
        """The epochs and whether they are new; the present ones where ``known`` has been overtaken."""
        async with _held(self._shards[shard] for shard in sorted(known)), self.committing(host):
            if any(self.owners[shard] != host for shard in known):
                raise StaleEpochError
            if not self._current(known):
                return {shard: self.epochs[shard] for shard in known}, False
            return self._raise_epochs(known, host), True

    async def release(self, host: str, known: Mapping[int, int]) -> None:
        async with _held(self._shards[shard] for shard in sorted(known)):
            mine = [shard for shard in known if self.owners[shard] == host]
            self._raise_epochs([shard for shard in mine if self.epochs[shard] == known[shard]], None)

    def _current(self, known: Mapping[int, int]) -> bool:
        return all(self.epochs[shard] == epoch for shard, epoch in known.items())

    def committing(self, host: str) -> asyncio.Lock:
        """What a commit of ``host`` holds, and whoever takes its shards waits for."""
        return self._hosts[host]

    def _raise_epochs(self, shards: Collection[int], host: str | None) -> dict[int, int]:
        for shard in shards:
            self.epochs[shard] += 1
            self.owners[shard] = host
        return {shard: self.epochs[shard] for shard in shards}

    # --- commit -------------------------------------------------------------------------------------------

    def check_fence(self, host: str, rows: Rows) -> None:
        """``StaleEpochError`` unless ``host`` holds the newest epoch of every shard that is written."""
        for shard, epoch in rows.shards.items():
            if (self.owners[shard], self.epochs[shard]) != (host, epoch):
                raise StaleEpochError

    def apply(self, rows: Rows) -> None:
        """Make ``rows`` true, or raise and leave everything as it was."""
        self._check(rows)
        self.journal.put(rows.journal)
        self.command_keys |= {row["command_key"]: row for row in self.journal.read(rows.journal)}
        self.programmes.put(rows.programmes.values(), ("version", "seq", "config", "outage"))
        self.programme_changes += rows.programmes
        self.outages.put(rows.outages.values(), ("used_minor", "ended_at"))
        self.stand_ins.put(rows.stand_ins)
        self.cards.put(rows.cards.values(), ("state", "state_reason", "controls", "cardholder_active"))
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
        self.events.put(rows.events)
        self.idempotency.put(rows.idempotency, self.idempotency.columns)

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
        # A row's last column is when its host claimed it.
        self.idempotency.refuse_known(each for each in rows.idempotency if self.response(each[0], each[-1]))

    # --- reading ------------------------------------------------------------------------------------------

    def card(self, card_id: str, now_ms: int | None = None) -> Card | None:
        """A card as its owner has it, at ``now_ms`` or now."""
        row, usage = self.cards.rows.get(card_id), self.card_usage.rows.get(card_id)
        if row is None or usage is None:
            return None
        counters = {name: value for name, value in usage.items() if name != "card_id"}
        fixed = {name: value for name, value in row.items() if name not in {"controls", "created_at"}}
        controls = decode_controls(row["controls"])
        oldest_ms = (self._now_ms() if now_ms is None else now_ms) - TOMBSTONE_DAYS * DAY_MS
        tombstones = {
            name: row["recorded_at"]
            for (card, name), row in self.tombstones.rows.items()
            if card == card_id and row["recorded_at"] > oldest_ms
        }
        declared = self.declared_balances.rows.get(card_id)
        return Card(
            controls=controls,
            created_ms=row["created_at"],
            tombstones=tombstones,
            declared=None if declared is None else DeclaredBalance(*list(declared.values())[1:]),
            **fixed,
            **counters,
        )

    def programme(self, programme_id: str) -> Programme | None:
        """A programme as its owner has it."""
        row = self.programmes.rows.get(programme_id)
        if row is None:
            return None
        outage = None if row["outage"] is None else decode_outage(row["outage"])
        return Programme(decode_config(row["config"]), row["seq"], outage, row["decision_secret_sealed"])

    def authorizations(self, card_id: str, reference: str) -> list[Authorization]:
        """The authorizations that ``reference`` names on a card, oldest first."""
        return [self._authorization(row) for row in self._named(card_id, reference)]

    def _authorization(self, row: Row) -> Authorization:
        card_id = row["card_id"]
        opening = self.journal.rows[card_id, row["seq"]]
        command_key = opening["command_key"]
        columns = {name: row[name] for name in Authorization.__struct_fields__ if name in row}
        follow_ups = [
            (each, msgspec.json.decode(each["decision"]))
            for each in sorted(self.journal.rows.values(), key=itemgetter("seq"))
            if each["authorization_id"] == row["id"]
            and each["kind"] in ("increment", "reverse", "advise")
            and each["decision"] is not None
        ]
        day = next(
            (
                decision["counted_day"]
                for each, decision in follow_ups
                if each["kind"] == "advise" and "counted_day" in decision and "counted_minor" not in decision
            ),
            row["day"],
        )
        raised = self._raised(card_id, follow_ups)
        return Authorization(
            command_key=command_key, raised=raised, stands_for=_stands_for(opening), **columns | {"day": day}
        )

    def _raised(self, card_id: str, follow_ups: list[tuple[Row, dict[str, Any]]]) -> dict[str, Increment]:
        """What is left of each increment of an authorization."""
        left: dict[str, Increment] = {}
        for row, decision in follow_ups:
            name = reference_of_message(row["command_key"])
            if row["kind"] == "increment":
                reversed_early = (
                    decode_inputs(row["inputs"]).reversed_early or (card_id, name) in self.tombstones.rows
                )
                approved = 0 if reversed_early else decision["approved_minor"]
                left[name] = Increment(approved, decision["day"], approved)
            elif "counted_minor" in decision:
                left[name] = Increment(0, decision["counted_day"], decision["counted_minor"])
            if "increment" in decision:
                remaining = decision.get("increment_left_minor", 0)
                left[decision["increment"]] = replace(left[decision["increment"]], left_minor=remaining)
            for other, minor in decision.get("uncounted", {}).items():
                counted = left[other].counted_minor - minor
                left[other] = replace(left[other], counted_minor=counted)
        return left

    def _named(self, card_id: str, reference: str) -> list[Row]:
        kind, _, name = reference.partition(":")
        if kind == "n":
            named = [
                row
                for row in self.transactions.rows.values()
                if (row["card_id"], row["network_txn_id"]) == (card_id, name)
            ]
            return sorted(named, key=itemgetter("seq"))[-LIFE_MEMBERS_MAX:]
        if kind == "k":
            entry = self.command_keys.get(bytes.fromhex(name), {"authorization_id": None})
            name = entry["authorization_id"]
        row = self.transactions.rows.get(name)
        return [row] if row is not None and row["card_id"] == card_id else []

    def due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        """Cards with holds past their expiry."""
        now_ms = self._now_ms()
        due = [
            hold
            for hold in self.holds.rows.values()
            if hold["state"] == "held"
            and hold["expires_at"] <= now_ms
            and shard_of(hold["card_id"]) in shards
        ]
        due.sort(key=itemgetter("expires_at"))
        return list(dict.fromkeys(hold["card_id"] for hold in due[:limit]))

    def account(self, account_id: str) -> Account | None:
        """An account with its open holds, as its owner has it."""
        row = self.accounts.rows.get(account_id)
        if row is None or row["kind"] != "card":
            return None
        account = Account(
            **{name: value for name, value in row.items() if name not in {"kind", "held_minor"}}
        )
        for hold in self.holds.rows.values():
            if hold["account_id"] == account_id and hold["state"] == "held":
                place_hold(
                    account,
                    Hold(
                        hold["id"],
                        hold["card_id"],
                        hold["authorization_id"],
                        hold["amount_minor"],
                        hold["expires_at"],
                    ),
                )
        return account

    def newest_answers(self, actor_ids: Iterable[str]) -> dict[bytes, Stored]:
        """The last commands of cards or programmes by command key."""
        answers: dict[bytes, Stored] = {}
        for id_ in actor_ids:
            newest = self._newest_seq(id_)
            seqs = range(newest, max(0, newest - ACTIVATION_ANSWERS), -1)
            rows = [self.journal.rows[id_, seq] for seq in seqs]
            answers |= {row["command_key"]: stored(row) for row in rows}
        return answers

    def _newest_seq(self, actor_id: str) -> int:
        row = self.card_usage.rows.get(actor_id) or self.programmes.rows.get(actor_id, {"seq": 0})
        return int(row["seq"])

    def response(self, key_digest: bytes, claimed_ms: int | None = None) -> Row | None:
        """The idempotency row of a key, unless it is too old by the store's clock and by the claim's."""
        row = self.idempotency.rows.get(key_digest)
        now_ms = self._now_ms() if claimed_ms is None else min(self._now_ms(), claimed_ms)
        return row if row is not None and row["created_at"] > now_ms - _RETENTION_MS else None


def _stands_for(opening: Row) -> tuple[str, ...]:
    """Of an advice that opened a transaction: the messages that it names."""
    if opening["kind"] != "advise":
        return ()
    return tuple(filter(is_message, msgspec.json.decode(opening["command"]).get("references", ())))


def stored(row: Row) -> Stored:
    """What a journal row keeps of an executed command."""
    return Stored(row["fingerprint"], row["reply"].encode())


@asynccontextmanager
async def _held(locks: Iterable[asyncio.Lock]) -> AsyncIterator[None]:
    """Hold all ``locks``, taken in the order given."""
    async with AsyncExitStack() as stack:
        for lock in locks:
            await stack.enter_async_context(lock)
        yield
