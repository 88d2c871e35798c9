"""Journals of many cards, made by the engine: purchases, most of which are presented."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, Final

import asyncpg
import msgspec

from engine.authorization.executed import Executed
from engine.commands import (
    Authorize,
    CardCommand,
    CreateCard,
    Load,
    Present,
    ProgrammeCommand,
    WireIdentity,
    reference_of_message,
)
from engine.decision.compact import compacted
from engine.decision.compact_layout import Configuration
from engine.decision.decide import Decision
from engine.execution.execute import execute
from engine.ids import Derived, derive, id_of_pair, key_of
from engine.instant import to_datetime
from engine.replay.programmes import ProgrammeVersions
from engine.replay.state import ReplayedState
from loadtests.generators.history import BEGIN_MS

OF_EACH_CARD: Final = 200
STEP_MS: Final = 3 * 3_600_000
"""Time between the purchases of a card."""
PRESENTED: Final = 0.9
AMOUNT_MINOR_MAX: Final = 10_000
COLUMNS: Final = (
    "actor_id",
    "seq",
    "epoch",
    "command_key",
    "fingerprint",
    "kind",
    "command",
    "inputs",
    "decision",
    "reply",
    "recorded_at",
    "authorization_id",
)
CARDS_WRITTEN: Final = 50
"""Cards whose rows are written at once."""


_TEMPLATE: Final = """
    SELECT j.command, c.programme_id::text FROM journal j JOIN cards c ON c.id = j.actor_id
    WHERE c.id = $1::text::uuid AND j.seq = 1
"""
_PROGRAMME: Final = "SELECT command FROM journal WHERE actor_id = $1::text::uuid ORDER BY seq"
_USAGE: Final = """
    INSERT INTO card_usage (card_id, seq, day, day_count, day_amount_minor)
    SELECT id, seq, '', 0, 0 FROM unnest($1::uuid[], $2::bigint[]) AS n (id, seq)
"""
_CARDS: Final = """
    INSERT INTO cards
    SELECT (jsonb_populate_record(c, jsonb_build_object('id', n.id, 'account_id', n.account_id))).*
    FROM cards c CROSS JOIN unnest($2::uuid[], $3::uuid[]) AS n (id, account_id) WHERE c.id = $1::text::uuid
"""
_CONFIGURATION: Final = (
    "INSERT INTO decision_configurations (digest, card, programme, decisioning) VALUES ($1, $2, $3, $4)"
    " ON CONFLICT DO NOTHING"
)
_decode: Final = msgspec.json.Decoder(CardCommand).decode
_decode_programme: Final = msgspec.json.Decoder(ProgrammeCommand).decode
_encode: Final = msgspec.json.Encoder().encode


class Card:
    """A card that lives a random life, command by command."""

    def __init__(self, issue: CreateCard, versions: ProgrammeVersions, begin_ms: int, seed: int) -> None:
        self._issue = issue
        self._versions = versions
        self._now_ms = begin_ms
        self._dice = random.Random(seed)
        self._state = ReplayedState()
        self._numbers = 0
        self.configurations: dict[str, Configuration] = {}
        """Configurations that the rows name."""

    def rows(self, decisions: int) -> Iterator[tuple[Any, ...]]:
        """The journal of ``decisions`` purchases, and of their presentments."""
        yield self._row(self._issue, "create_card", self._state.issue(self._issue, self._now_ms))
        loaded = 1_000 * AMOUNT_MINOR_MAX * decisions
        about: dict[str, Any] = {"tenant_id": self._issue.tenant_id, "live": self._issue.live}
        about |= {"currency": self._issue.currency, "amount_minor": loaded}
        yield self._do(Load(**self._named(), **about), "load")
        for _ in range(decisions):
            self._now_ms += self._dice.randint(1, STEP_MS)
            sale = self._sale()
            yield self._do(sale, "authorize")
            if self._dice.random() < PRESENTED:
                yield self._do(self._presentment(sale), "present")

    def _named(self) -> dict[str, Any]:
        self._numbers += 1
        id_ = id_of_pair(f"{self._numbers:032x}", self._issue.id)
        return {"id": id_, "command_key": key_of(id_), "card_id": self._issue.id}

    def _message(self) -> dict[str, Any]:
        named = self._named()
        wire = WireIdentity(
            "1", f"{self._numbers % 1_000_000:06d}", "0101000000", f"{self._numbers:012d}", named["id"]
        )
        merchant = {"mcc": self._dice.choice(("5411", "5812", "5541")), "merchant_name": "Shop"}
        about = {"fingerprint": named["command_key"], "wire": wire, "currency": self._issue.currency}
        return named | merchant | about | {"merchant_country": "IE"}

    def _sale(self) -> Authorize:
        amount_minor = self._dice.randint(100, AMOUNT_MINOR_MAX)
        return Authorize(**self._message(), amount_minor=amount_minor, channel="pos", entry_mode="chip")

    def _presentment(self, sale: Authorize) -> Present:
        references = (reference_of_message(sale.command_key),)
        fields = self._message() | {"amount_minor": sale.amount_minor, "references": references}
        return Present(**fields, kind="purchase", arn=None, sequence=1)

    def _do(self, command: CardCommand, kind: str) -> tuple[Any, ...]:
        card = self._state.cards[self._issue.id].card
        config = self._versions.at(card.programme_id, self._now_ms)
        context = self._state.context(card.id, command, config, None, self._now_ms)
        return self._row(command, kind, execute(command, context, self._now_ms))

    def _row(self, command: CardCommand, kind: str, executed: Executed) -> tuple[Any, ...]:
        card_id = self._issue.id
        seq = self._state.cards[card_id].card.seq + 1
        texts = self._compact(command, executed, seq) or (
            _encode(command).decode(),
            None if executed.inputs is None else _encode(executed.inputs).decode(),
            None if executed.outcome is None else _encode(executed.outcome).decode(),
            _encode(executed.reply).decode(),
        )
        self._state.record(card_id, command.command_key, executed.effects, executed.authorization_id)
        return (
            card_id,
            seq,
            0,
            command.command_key,
            getattr(command, "fingerprint", None),
            kind,
            *texts,
            to_datetime(self._now_ms),
            executed.authorization_id,
        )

    def _compact(
        self, command: CardCommand, executed: Executed, seq: int
    ) -> tuple[str, str, str, str] | None:
        """As hosts store a plain authorization; ``None`` for every other command."""
        if not isinstance(command, Authorize) or executed.inputs is None:
            return None
        decision = executed.outcome
        assert isinstance(decision, Decision), "only decisions have inputs"
        found = compacted(command, executed.inputs, decision, executed.reply, seq, self._now_ms)
        if found is None:
            return None
        self.configurations[found.configuration.digest] = found.configuration
        return found.command, found.inputs, found.decision, found.reply


async def fill(dsn: str, card_id: str, decisions: int) -> str:
    """Write the journals of cards like the card ``card_id``; returns the programme."""
    connection = await asyncpg.connect(dsn)
    try:
        row = await connection.fetchrow(_TEMPLATE, card_id)
        assert row is not None, "the card was issued"
        issue, programme_id = row
        versions = ProgrammeVersions()
        for row in await connection.fetch(_PROGRAMME, programme_id):
            # The histories are older than the programme, whose only version is in force in all of them.
            versions.add(programme_id, _decode_programme(row["command"]), BEGIN_MS)
        template = _decode(issue)
        assert isinstance(template, CreateCard), "a journal begins with the issue"
        cards = max(1, decisions // OF_EACH_CARD)
        for start in range(0, cards, CARDS_WRITTEN):
            some = [_like(template, number) for number in range(start, min(cards, start + CARDS_WRITTEN))]
            accounts = [each.account_id for each in some]
            ids = [each.id for each in some]
            await connection.execute(_CARDS, card_id, ids, accounts)
            lived = [Card(each, versions, BEGIN_MS, number) for number, each in enumerate(some, start)]
            lives = [[*card.rows(OF_EACH_CARD)] for card in lived]
            configurations = {digest: each for card in lived for digest, each in card.configurations.items()}
            await connection.executemany(_CONFIGURATION, configurations.values())
            await connection.execute(_USAGE, ids, [len(life) for life in lives])
            rows = [row for life in lives for row in life]
            await connection.copy_records_to_table("journal_rows", records=rows, columns=COLUMNS)
        for table in ("cards", "card_usage", "journal_rows"):
            await connection.execute(f"VACUUM (ANALYZE) {table}", timeout=3_600)
        # Otherwise the server writes all these rows during the measurement.
        await connection.execute("CHECKPOINT", timeout=3_600)
        return str(programme_id)
    finally:
        await connection.close()


def _like(template: CreateCard, number: int) -> CreateCard:
    """The issue of another card. Its cardholder is active from the beginning; on the template's journal, a
    command after the issue says so."""
    id_ = id_of_pair(f"{number:032x}", template.id)
    return msgspec.structs.replace(
        template,
        id=id_,
        command_key=key_of(id_),
        account_id=derive(id_, Derived.ACCOUNT),
        cardholder_active=True,
    )
