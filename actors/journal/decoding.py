"""Decoding of stored rows. A row that this release cannot decode does not fail the read of the other rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from actors.journal.contract import StoredReply, Unreadable
from engine.authorization.counting import Figures, counted_past
from engine.cards.authorization import Authorization, Increment
from engine.cards.card import Card, DeclaredBalance
from engine.controls import Control
from engine.currencies import MerchantAmount
from engine.decision.compact_reading import command_values, is_compact
from engine.limits import CONTROLS_SHARED_MAX
from engine.programmes.programme import Programme, ProgrammeConfig
from engine.programmes.stand_in import Outage
from engine.rules.model import Rule
from engine.rules.velocity import Counted

T = TypeVar("T")

decode_controls = msgspec.json.Decoder(tuple[Control, ...]).decode
decode_config = msgspec.json.Decoder(ProgrammeConfig).decode
decode_outage = msgspec.json.Decoder(Outage).decode
decode_rule = msgspec.json.Decoder(Rule).decode
_decode_increments = msgspec.json.Decoder(dict[str, Increment]).decode
_decode_merchant_amount = msgspec.json.Decoder(MerchantAmount).decode


def decoded(decode: Callable[[], T]) -> T | Unreadable:
    """The value of one stored row, or ``Unreadable`` when decoding it raises anything but MemoryError."""
    try:
        return decode()
    except MemoryError:
        raise
    except Exception as fault:  # noqa: BLE001 - no fault of one row may reach the rows beside it
        return Unreadable(type(fault).__name__)


def stored_commands(rows: list[Any]) -> dict[bytes, StoredReply]:
    """Executed commands by command key."""
    return {row["command_key"]: StoredReply(row["fingerprint"], row["reply"].encode()) for row in rows}


def card_of(row: Any) -> Card:
    """A card from a row of ``load_cards``."""
    fields = dict(row)
    declared = [fields.pop(name) for name in ("balance_minor", "consumed_minor", "declared_ms")]
    fields["controls"] = _controls(fields["controls"])
    fields["rules"] = tuple(map(decode_rule, fields["rules"]))
    fields["tombstones"] = dict(zip(fields["tombstones"], fields.pop("tombstones_ms"), strict=True))
    return Card(**fields, declared=None if declared[0] is None else DeclaredBalance(*declared))


@lru_cache(maxsize=CONTROLS_SHARED_MAX)
def _controls(text: str) -> tuple[Control, ...]:
    """Cards with equal controls share one object: most cards of a product have the same controls."""
    return decode_controls(text)


def programme_of(row: Any) -> Programme:
    """A programme from a row of ``load_programmes``."""
    outage = None if row["outage"] is None else decode_outage(row["outage"])
    rules = tuple(map(decode_rule, row["rules"]))
    return Programme(decode_config(row["config"]), row["seq"], outage, row["decision_secret_sealed"], rules)


class PastCommand(msgspec.Struct, gc=False):
    """The members of a stored command that describe a purchase."""

    amount_minor: int
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None = None
    channel: str | None = None
    entry_mode: str | None = None


class PastIncrement(msgspec.Struct, gc=False):
    """An increment in a row of ``load_past``."""

    name: str
    at_ms: int
    command: str
    counted_minor: int


_decode_past_command = msgspec.json.Decoder(PastCommand).decode


def decode_past_command(command: str) -> PastCommand:
    """The purchase of a stored command, in full or compact."""
    if not is_compact(command):
        return _decode_past_command(command)
    values = command_values(command)
    return PastCommand(
        amount_minor=values[5],
        mcc=values[7],
        merchant_name=values[8],
        merchant_country=values[9],
        merchant_id=values[11],
        channel=values[10],
        entry_mode=values[12],
    )


_decode_past_increments = msgspec.json.Decoder(list[PastIncrement]).decode


def past_of(row: Any) -> list[Counted]:
    """An authorization and its increments from a row of ``load_past``."""
    increments = _decode_past_increments(row["increments"])
    return counted_past(
        (row["authorization_id"], row["at_ms"], decode_past_command(row["command"])),
        [
            (each.name, each.at_ms, decode_past_command(each.command), each.counted_minor)
            for each in increments
        ],
        Figures(
            row["kind"], row["declined"], row["approved_minor"], row["cleared_minor"], row["reversed_minor"]
        ),
    )


def authorizations_of(rows: list[Any]) -> list[Authorization]:
    """Authorizations from rows of ``load_authorizations``."""
    return [_authorization(row) for row in rows]


def _authorization(row: Any) -> Authorization:
    columns = {name: row[name] for name in Authorization.__struct_fields__}
    charged = columns["merchant_amount"]
    return Authorization(
        **columns
        | {
            "increments": _decode_increments(row["increments"]),
            "merchant_amount": None if charged is None else _decode_merchant_amount(charged),
            "stands_for": tuple(row["stands_for"]),
        }
    )
