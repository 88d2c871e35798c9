"""The reads of the in-memory twin: state as an owner loads it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from operator import itemgetter
from typing import Any, Final

import msgspec

from actors.clock import SystemClock
from actors.journal.contract import PastOf, StoredReply
from actors.journal.decoding import (
    decode_config,
    decode_controls,
    decode_outage,
    decode_past_command,
    decode_rule,
)
from actors.journal.memory_tables import MemoryTables, Row
from engine.authorization.counting import Figures, counted_past
from engine.cards.account import Account, place_hold
from engine.cards.authorization import Authorization, Increment
from engine.cards.card import Card, DeclaredBalance
from engine.cards.hold import Hold
from engine.commands import is_message, reference_of_message
from engine.currencies import MerchantAmount
from engine.decision.inputs import Inputs
from engine.ids import shard_of
from engine.instant import DAY_MS
from engine.limits import ACTIVATION_ANSWERS, IDEMPOTENCY_RETENTION_HOURS, NETWORK_GROUP_MAX, TOMBSTONE_DAYS
from engine.programmes.programme import Programme
from engine.rules.model import Rule
from engine.rules.velocity import Counted

decode_inputs = msgspec.json.Decoder(Inputs).decode
replace = msgspec.structs.replace

_RETENTION_MS: Final = IDEMPOTENCY_RETENTION_HOURS * 3_600_000


class MemoryReads(MemoryTables):
    """``now_ms`` is the database's clock."""

    def __init__(self, now_ms: Callable[[], int] | None = None) -> None:
        super().__init__()
        self._now_ms = now_ms or SystemClock().now_ms

    def card(self, card_id: str, now_ms: int | None = None) -> Card | None:
        """A card as its owner loads it, at ``now_ms`` or now."""
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
        links = self.card_replacements.rows.values()
        return Card(
            controls=controls,
            created_ms=row["created_at"],
            tombstones=tombstones,
            declared=None if declared is None else DeclaredBalance(*list(declared.values())[1:]),
            replaces=next((row["card_id"] for row in links if row["replacement_id"] == card_id), None),
            replaced_by=next((row["replacement_id"] for row in links if row["card_id"] == card_id), None),
            rules=self._rules(lambda row: row["scope_id"] == card_id),
            **fixed,
            **counters,
        )

    def programme(self, programme_id: str) -> Programme | None:
        """A programme as its owner loads it."""
        row = self.programmes.rows.get(programme_id)
        if row is None:
            return None
        outage = None if row["outage"] is None else decode_outage(row["outage"])
        rules = self._rules(lambda row: row["programme_id"] == programme_id and row["scope_type"] != "card")
        return Programme(
            decode_config(row["config"]), row["seq"], outage, row["decision_secret_sealed"], rules
        )

    def _rules(self, belongs: Callable[[Row], bool]) -> tuple[Rule, ...]:
        """The rules for which ``belongs`` is true, except retired ones."""
        rows = [
            row
            for row in self.authorization_rules.rows.values()
            if row["state"] != "retired" and belongs(row)
        ]
        rows.sort(key=itemgetter("created_at", "id"))
        return tuple(decode_rule(row["rule"]) for row in rows)

    def past(self, wanted: PastOf) -> list[Counted]:
        """The purchases of a card, or of all cards of an account, that may count in velocities."""
        if wanted.kind == "account":
            cards = {row["id"] for row in self.cards.rows.values() if row["account_id"] == wanted.subject}
        else:
            cards = self._lineage(wanted.subject)
        return [
            counted
            for row in self.transactions.rows.values()
            if row["card_id"] in cards
            and row["updated_at"] > wanted.since_ms
            and row["kind"] in ("purchase", "force_post")
            for counted in self._counted(row)
        ]

    def _lineage(self, card_id: str) -> set[str]:
        """A card and the cards that it replaces, one after the other."""
        cards, last = {card_id}, card_id
        replaced = {row["replacement_id"]: row["card_id"] for row in self.card_replacements.rows.values()}
        while last in replaced:
            last = replaced[last]
            cards.add(last)
        return cards

    def _counted(self, row: Row) -> list[Counted]:
        authorization = self._authorization(row)
        opening = self.journal.rows[row["card_id"], row["seq"]]
        messages = {
            name: self.command_keys[bytes.fromhex(name.removeprefix("k:"))]
            for name in authorization.increments
        }
        return counted_past(
            (row["id"], row["created_at"], decode_past_command(opening["command"])),
            [
                (
                    name,
                    messages[name]["recorded_at"],
                    decode_past_command(messages[name]["command"]),
                    increment.counted_minor,
                )
                for name, increment in authorization.increments.items()
            ],
            Figures(
                row["kind"],
                row["decline_reason"] is not None,
                row["approved_minor"],
                row["cleared_minor"],
                row["reversed_minor"],
            ),
        )

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
        increments = self._increments(card_id, follow_ups)
        return Authorization(
            command_key=command_key,
            increments=increments,
            merchant_amount=_merchant_amount(opening),
            stands_for=_stands_for(opening),
            **columns | {"day": day},
        )

    def _increments(self, card_id: str, follow_ups: list[tuple[Row, dict[str, Any]]]) -> dict[str, Increment]:
        """The increments of an authorization after its reversals and advices."""
        left: dict[str, Increment] = {}
        for row, decision in follow_ups:
            name = reference_of_message(row["command_key"])
            if row["kind"] == "increment":
                inputs = decode_inputs(row["inputs"])
                reversed_early = inputs.reversed_early or (card_id, name) in self.tombstones.rows
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
            return sorted(named, key=itemgetter("seq"))[-NETWORK_GROUP_MAX:]
        if kind == "k":
            entry = self.command_keys.get(bytes.fromhex(name), {"authorization_id": None})
            name = entry["authorization_id"]
        row = self.transactions.rows.get(name)
        return [row] if row is not None and row["card_id"] == card_id else []

    def due_cards(self, shards: Collection[int], limit: int) -> list[str]:
        """Cards with expired holds."""
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
        """An account with its open holds, as its owner loads it."""
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

    def newest_answers(self, actor_ids: Iterable[str]) -> dict[bytes, StoredReply]:
        """Stored replies of the newest commands of cards or programmes, by command key."""
        answers: dict[bytes, StoredReply] = {}
        for id_ in actor_ids:
            newest = self._newest_seq(id_)
            seqs = range(newest, max(0, newest - ACTIVATION_ANSWERS), -1)
            rows = [self.journal.rows[id_, seq] for seq in seqs]
            answers |= {row["command_key"]: stored(row) for row in rows}
        return answers

    def _newest_seq(self, actor_id: str) -> int:
        row = self.card_usage.rows.get(actor_id) or self.programmes.rows.get(actor_id, {"seq": 0})
        return int(row["seq"])

    def response(self, key_digest: bytes, created_ms: int | None = None) -> Row | None:
        """The row of an idempotency key, unless it has expired by the store's clock and at ``created_ms``."""
        row = self.idempotency.rows.get(key_digest)
        now_ms = self._now_ms() if created_ms is None else min(self._now_ms(), created_ms)
        return row if row is not None and row["created_at"] > now_ms - _RETENTION_MS else None


def _merchant_amount(opening: Row) -> MerchantAmount | None:
    charged = msgspec.json.decode(opening["command"]).get("merchant_amount")
    return None if charged is None else MerchantAmount(**charged)


def _stands_for(opening: Row) -> tuple[str, ...]:
    """The references of messages that an advice replaces, if it opened the transaction."""
    if opening["kind"] != "advise":
        return ()
    return tuple(filter(is_message, msgspec.json.decode(opening["command"]).get("references", ())))


def stored(row: Row) -> StoredReply:
    """The stored reply in a journal row."""
    return StoredReply(row["fingerprint"], row["reply"].encode())
