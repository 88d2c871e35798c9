"""Plain authorizations of many kinds, with the texts that the journal stores and shows, and their events.

``python -m tests.support.engine.compact`` writes ``tests/engine/decision/recorded/compact_rows.jsonl`` again.
Only a new layout needs that: rows of an earlier layout stay in their own file.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.authorization.executed import CommandContext
from engine.commands import Authorize
from engine.controls import ChannelDeny, Control, MccAllow, MccDeny, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.currencies import MerchantAmount
from engine.decision.compact import CompactTexts, Configuration, FullTexts, StoredRow, compacted
from engine.decision.decide import Decision
from engine.execution.execute import execute
from tests.support.engine import build

FILE: Final = Path(__file__).parents[2] / "engine" / "decision" / "recorded" / "compact_rows.jsonl"
NAMES: Final = ("Shop", 'The "Quoted" Bar', "Back\\slash/", "Café Ümlaut €", "tab\there", "\x7f 𝄞")
CONTROLS: Final[tuple[tuple[Control, ...], ...]] = (
    (),
    (PerDayCap(2),),
    (PerDayAmountCap(4_000), PerDayCap(9)),
    (MccDeny(("7995",)), PerTxnCap(2_000)),
    (MccAllow(("5411", "5812")), ChannelDeny(("atm",))),
)
_encode = msgspec.json.encode


class Recorded(msgspec.Struct):
    """One decision. ``events`` are type, id and data of those that its row implies."""

    row: StoredRow
    configuration: Configuration
    full: FullTexts
    account_id: str | None
    events: list[tuple[str, str, str]]


def recorded() -> list[Recorded]:
    """The stored decisions of layout 1."""
    return [msgspec.json.decode(line, type=Recorded) for line in FILE.read_bytes().splitlines()]


def decided(dice: random.Random, number: int, **fixed: Any) -> tuple[Recorded | None, Authorize, Decision]:
    """A random plain authorization of a random card; ``None`` if the journal must store it in full."""
    command, context, now_ms = _command(dice, number, **fixed), _context(dice), build.NOW_MS + number * 777
    before = context.card.seq
    executed = execute(command, context, now_ms)
    decision, inputs = executed.outcome, executed.inputs
    assert isinstance(decision, Decision), "a decision"
    assert inputs is not None, "a decision"
    texts = compacted(command, inputs, decision, executed.reply, before + 1, now_ms)
    full = FullTexts(*(_encode(each).decode() for each in (command, inputs, decision, executed.reply)))
    if texts is None:
        return None, command, decision
    events = [(each.type, each.id, each.data) for each in executed.events]
    row = _row(command, texts, before + 1, now_ms)
    return Recorded(row, texts.configuration, full, context.card.account_id, events), command, decision


def _row(command: Authorize, texts: CompactTexts, seq: int, now_ms: int) -> StoredRow:
    keys = (command.command_key, command.fingerprint)
    return StoredRow(command.card_id, seq, *keys, *texts[:4], now_ms, command.id)


def _command(dice: random.Random, number: int, **fixed: Any) -> Authorize:
    network_txn_id = dice.choice((None, f"N{number}"))
    parts: dict[str, Any] = {
        "wire": msgspec.structs.replace(build.wire(number), network_txn_id=network_txn_id),
        "amount_minor": dice.choice((0, 1, 99, 1_000, 2_500, 123_456)),
        "currency": dice.choice(("EUR", "EUR", "EUR", "GBP", "392")),
        "mcc": dice.choice(("5411", "7995", "5812", "7011")),
        "merchant_name": dice.choice(NAMES),
        "channel": dice.choice(("pos", "ecommerce", "atm", "moto")),
        "merchant_id": dice.choice((None, "000012345", 'M "1"')),
        "entry_mode": dice.choice((None, "chip", "ecommerce", "magstripe")),
        "mit": dice.random() < 0.1,
        "partial_allowed": dice.random() < 0.3,
        "partial_cap_minor": dice.choice((None, None, 500)),
        "expiry": dice.choice(("absent", "match", "match", "mismatch")),
        "cvv2": dice.choice(("absent", "match", "match", "mismatch", "missing")),
        "cvv1": dice.choice(("absent", "match", "mismatch")),
        "pin": dice.choice(("absent", "absent", "valid", "invalid", "ignored")),
        "chip": dice.choice(("absent", "absent", "valid", "invalid", "present")),
        "chip_tags": dice.choice(((), ("9F02=000000001000", "95=8000008000"))),
        "address": dice.choice(("absent", "present")),
        "authentication": dice.choice(("absent", "present", "valid", "invalid", "malformed")),
    }
    if dice.random() < 0.1:
        parts["merchant_amount"] = MerchantAmount(
            dice.randrange(1, 9_999), "CHF", dice.choice((None, "1.07"))
        )
    return build.authorize(number, **(parts | fixed))


def _context(dice: random.Random) -> CommandContext:
    posted = dice.choice((0, 50, 200_000, -70))
    funded = dice.random() < 0.9
    account = build.account(posted_minor=posted, version=dice.randrange(1, 99)) if funded else None
    card = build.card(
        account_id=account.id if account else None,
        seq=dice.randrange(1, 1_000_000),
        state=dice.choice(("active",) * 8 + ("suspended", "lost")),
        cardholder_active=dice.random() < 0.95,
        network=dice.choice(("visa", "mastercard")),
        exp_year=dice.choice((2019, 2099)),
        controls=dice.choice(CONTROLS),
        day=dice.choice(("", "2026-11-20", "2999-01-01")),
        day_count=dice.randrange(3),
        day_amount_minor=dice.randrange(3_000),
        cvv2_failures=dice.choice((0, 1, 5)),
    )
    config = build.programme(
        version=dice.randrange(1, 30),
        timezone=dice.choice(("UTC", "Europe/Dublin", "Pacific/Kiritimati")),
        status=dice.choice(("active",) * 8 + ("suspended",)),
        hold_expiry_days=dice.choice((1, 7, 30)),
    )
    return CommandContext(card, account, config, None, None)


def write(count: int = 120) -> None:
    """Write the file."""
    dice = random.Random(1)
    found = [decided(dice, number)[0] for number in range(1, count)]
    lines = [_encode(each).decode() for each in found if each is not None]
    FILE.write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{len(recorded())} rows\n")
