"""Plain authorizations of many kinds, with the texts that the journal stores and shows, and their events.

``python -m tests.support.engine.compact`` adds ``tests/engine/decision/recorded/delegated_rows.jsonl``. A
file that is there never changes: rows of an earlier layout stay in their own file.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any, Final

import msgspec

from engine.authorization.authorizing import question
from engine.authorization.executed import CommandContext
from engine.cards.card import DeclaredBalance
from engine.commands import Authorize
from engine.controls import ChannelDeny, Control, MccAllow, MccDeny, PerDayAmountCap, PerDayCap, PerTxnCap
from engine.currencies import MerchantAmount
from engine.decision.compact import CompactTexts, compacted
from engine.decision.compact_delegated import STAND_IN_RULES, TRIGGERS
from engine.decision.compact_layout import Configuration, FullTexts, StoredRow
from engine.decision.decide import Decision
from engine.decision.delegation import EndpointResult
from engine.execution.execute import execute
from engine.programmes.stand_in import Grant
from tests.support.engine import build

FOLDER: Final = Path(__file__).parents[2] / "engine" / "decision" / "recorded"
PLAIN: Final = FOLDER / "compact_rows.jsonl"
"""Decisions of the platform, written when it was the only decider with compact texts."""
DELEGATED: Final = FOLDER / "delegated_rows.jsonl"
"""Decisions for delegated programmes."""
NAMES: Final = ("Shop", 'The "Quoted" Bar', "Back\\slash/", "Café Ümlaut €", "tab\there", "\x7f 𝄞")
CONTROLS: Final[tuple[tuple[Control, ...], ...]] = (
    (),
    (PerDayCap(2),),
    (PerDayAmountCap(4_000), PerDayCap(9)),
    (MccDeny(("7995",)), PerTxnCap(2_000)),
    (MccAllow(("5411", "5812")), ChannelDeny(("atm",))),
)
_PASSING: Final[dict[str, Any]] = {
    "currency": "EUR",
    "expiry": "match",
    "cvv2": "match",
    "cvv1": "absent",
    "pin": "absent",
    "chip": "absent",
    "chip_tags": (),
    "authentication": "absent",
    "amount_minor": 1_000,
    "channel": "pos",
}
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
    lines = PLAIN.read_bytes().splitlines() + DELEGATED.read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Recorded) for line in lines]


def decided(
    dice: random.Random, number: int, *, delegated: bool = False, **fixed: Any
) -> tuple[Recorded | None, Authorize, Decision]:
    """A random plain authorization of a random card; ``None`` if the journal must store it in full.
    ``delegated``: by a programme with an endpoint, or in stand-in for it."""
    command, context, now_ms = _command(dice, number, **fixed), _context(dice), build.NOW_MS + number * 777
    if delegated:
        command, context = _delegated(dice, command, context, now_ms)
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


def _delegated(
    dice: random.Random, command: Authorize, context: CommandContext, now_ms: int
) -> tuple[Authorize, CommandContext]:
    """The same, after the call to the programme's endpoint where one must precede the decision."""
    silent = dice.random() < 0.2
    command = msgspec.structs.replace(command, endpoint_silent=silent)
    if dice.random() < 0.9:
        # Most random authorizations are declined before the programme is asked.
        command = msgspec.structs.replace(command, **_PASSING)
        context.card.state, context.card.exp_year, context.card.controls = "active", 2099, ()
        context.card.cardholder_active = True
        if context.account is not None:
            context.account.posted_minor = dice.choice((5_000, 200_000))
    if dice.random() < 0.6:
        balance_minor = dice.choice((0, 500, 100_000, 100_000))
        context.card.declared = DeclaredBalance(balance_minor, dice.choice((0, 300)), now_ms - 5)
    programme = msgspec.structs.replace(context.programme, decisioning="delegated")
    context = msgspec.structs.replace(context, programme=programme)
    if question(command, context, now_ms) is None:
        return command, context
    result = EndpointResult(trigger="timeout", grant=_grant(dice)) if silent else _result(dice, command)
    return command, msgspec.structs.replace(context, endpoint_result=result)


def _result(dice: random.Random, command: Authorize) -> EndpointResult:
    answers = (
        EndpointResult("approved"),
        EndpointResult("declined"),
        EndpointResult("approved", dice.randrange(1, command.amount_minor + 1)),
    )
    failure = EndpointResult(trigger=dice.choice(TRIGGERS), grant=_grant(dice))
    return dice.choice((*answers, failure, failure, failure))


def _grant(dice: random.Random) -> Grant | None:
    rule = dice.choice(STAND_IN_RULES + ("within_ceilings",) * 9)
    outage_id = None if rule == "not_triggered" else build.an_id(dice.randrange(1, 99))
    limit_minor = dice.choice((None, 0, 5_000, 1_000_000))
    grant = Grant(rule, outage_id, dice.choice((0, 4_200)), limit_minor)  # type: ignore[arg-type]
    return dice.choice((grant, grant, grant, None))


def write(count: int = 240) -> None:
    """Add the file of delegated decisions."""
    dice = random.Random(2)
    found = [decided(dice, number, delegated=True)[0] for number in range(1, count)]
    lines = [_encode(each).decode() for each in found if each is not None]
    with DELEGATED.open("x", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    write()
    sys.stdout.write(f"{len(recorded())} rows\n")
