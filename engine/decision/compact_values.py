"""Compact texts as values: the command of a compact row, and the comparison of a decision with its row.

A back-test reads many rows, and full JSON between the row and the values would take half of its time. A row
whose compact texts are those of a decision also has the full texts of that decision, because ``expanded``
gives exactly these back.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.commands import Authorize, Channel, EntryMode, WireIdentity
from engine.controls import Control
from engine.decision.compact import compact_inputs, has_plain_inputs, outcome_texts
from engine.decision.compact_layout import Configuration, Further, StoredRow
from engine.decision.compact_reading import lengthened_command, lengthened_decision
from engine.decision.decide import Decision
from engine.decision.inputs import Inputs


class _Command(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A compact command."""

    acquirer_id: str
    stan: str
    transmitted_at: str
    rrn: str
    network_txn_id: str | None
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    merchant_id: str | None
    entry_mode: EntryMode | None
    further: Further


class _Card(msgspec.Struct, frozen=True, array_like=True):
    """The members of a configuration that the card has."""

    state: str
    cardholder_active: bool
    network: str
    currency: str
    exp_year: int
    exp_month: int
    controls: tuple[Control, ...]


class _Programme(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The members of a configuration that the programme has."""

    version: int
    status: str
    mode: str
    timezone: str
    hold_expiry_days: int


_decode_command: Final = msgspec.json.Decoder(_Command).decode
_decode_card: Final = msgspec.json.Decoder(_Card).decode
_decode_programme: Final = msgspec.json.Decoder(_Programme).decode
_NOTHING_FURTHER: Final = "{}]"


class KnownConfiguration(msgspec.Struct, frozen=True):
    """A configuration with its values."""

    stored: Configuration
    card: _Card
    programme: _Programme

    def is_of(self, inputs: Inputs) -> bool:
        """Whether ``inputs`` have these values."""
        card, programme = self.card, self.programme
        return (
            inputs.card_state == card.state
            and inputs.cardholder_active == card.cardholder_active
            and inputs.network == card.network
            and inputs.card_currency == card.currency
            and inputs.exp_year == card.exp_year
            and inputs.exp_month == card.exp_month
            and inputs.controls == card.controls
            and inputs.programme_version == programme.version
            and inputs.programme_status == programme.status
            and inputs.programme_mode == programme.mode
            and inputs.timezone == programme.timezone
            and inputs.hold_expiry_days == programme.hold_expiry_days
            and inputs.decisioning == self.stored.decisioning
        )


def known_configuration(stored: Configuration) -> KnownConfiguration:
    """``stored`` with its values. Raises ``msgspec.DecodeError``."""
    card, programme = _decode_card(f"[{stored.card}]"), _decode_programme(f"[{stored.programme}]")
    return KnownConfiguration(stored, card, programme)


def plain_command(row: StoredRow) -> Authorize:
    """The command of a compact ``row``. Raises ``msgspec.DecodeError``."""
    text = lengthened_command(row.command)
    values = _decode_command(text)
    assert row.authorization_id is not None, "authorizations have ids"
    assert row.fingerprint is not None, "messages of networks have fingerprints"
    command = Authorize(
        id=row.authorization_id,
        command_key=row.command_key,
        card_id=row.actor_id,
        fingerprint=row.fingerprint,
        wire=WireIdentity(
            values.acquirer_id, values.stan, values.transmitted_at, values.rrn, values.network_txn_id
        ),
        amount_minor=values.amount_minor,
        currency=values.currency,
        mcc=values.mcc,
        merchant_name=values.merchant_name,
        merchant_country=values.merchant_country,
        channel=values.channel,
        merchant_id=values.merchant_id,
        entry_mode=values.entry_mode,
    )
    return command if text.endswith(_NOTHING_FURTHER) else _with_further(command, values.further)


def _with_further(command: Authorize, further: Further) -> Authorize:
    members: dict[str, Any] = msgspec.structs.asdict(further)
    return msgspec.structs.replace(command, **members)


def has_inputs(row: StoredRow, inputs: Inputs, configuration: KnownConfiguration) -> bool:
    """Whether the compact ``row``, which names ``configuration``, has these inputs."""
    return (
        has_plain_inputs(inputs, row.seq, row.recorded_at_ms)
        and configuration.is_of(inputs)
        and compact_inputs(inputs, configuration.stored.digest) == row.inputs
    )


def has_decision(row: StoredRow, decision: Decision, day_before: str) -> bool:
    """Whether the compact ``row`` has this decision; ``day_before`` is the day of its inputs. ``False`` for
    all stand-ins: compare their full texts."""
    assert row.decision is not None, "compact rows are decisions"
    if decision.decided_by == "stand_in" or decision.stand_in is not None:
        # The texts alone do not show whether it follows from the inputs.
        return False
    texts = outcome_texts(decision, day_before, row.recorded_at_ms)
    return texts is not None and texts == (lengthened_decision(row.decision), row.reply)
