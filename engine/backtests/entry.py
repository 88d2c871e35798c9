"""A row of the journal, as a back-test reads it: with its texts in full, or compact."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from engine.commands import CardCommand
from engine.decision.compact_layout import StoredRow
from engine.decision.compact_reading import expanded
from engine.decision.compact_values import KnownConfiguration, has_decision, has_inputs, plain_command
from engine.decision.decide import Decision
from engine.decision.inputs import Inputs

_ASIDE: Final = frozenset(
    {"create_card", "replace_card", "change_card", "set_cardholder_status", "declare_balance"}
)
"""Kinds of commands that change no balance."""
_ACCOUNT_VERSION: Final = 18
"""Index of ``account_version`` in stored inputs, without the number of their layout."""
_COMPACT_ACCOUNT_VERSION: Final = 5
"""Its index in compact inputs."""
_LAYOUTS_MAX: Final = 1_000
"""The first member of inputs is the number of their layout or, in the first layout, an instant."""
_REASON: Final = 3
"""Index of the reason of a decline in a compact reply, which an approval does not have."""

_decode: Final = msgspec.json.Decoder(list[Any]).decode
_decode_command: Final = msgspec.json.Decoder(CardCommand).decode
_encode: Final = msgspec.json.Encoder().encode


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One journaled command of a card. ``command``, ``inputs`` and ``decision`` are the exact JSON texts."""

    card_id: str
    seq: int
    at_ms: int
    kind: str
    command: str
    inputs: str | None
    decision: str | None

    @property
    def concerns_account(self) -> bool:
        """Whether the command may change the balance or the holds of the account."""
        return self.kind not in _ASIDE

    @property
    def continues_card(self) -> bool:
        """Whether the command issues a card that continues the counters of another one."""
        return self.kind == "create_card" and '"continues":' in self.command

    @property
    def has_texts(self) -> bool:
        """Whether inputs and decision are known."""
        return self.inputs is not None and self.decision is not None

    @property
    def account_version(self) -> int | None:
        """The version of the account that the decision saw; ``None`` without inputs."""
        return None if self.inputs is None else account_version(self.inputs)

    @property
    def declined(self) -> bool:
        """Whether the decision is a decline, or there is none."""
        return self.decision is None or self.decision.startswith('{"decision":"declined"')

    def read_command(self) -> CardCommand:
        """The command. Raises ``msgspec.DecodeError``."""
        command: CardCommand = _decode_command(self.command)
        return command

    def has_inputs(self, inputs: Inputs) -> bool:
        """Whether the stored inputs are these, byte for byte."""
        return _encode(inputs).decode() == self.inputs

    def has_decision(self, decision: Decision, _day_before: str) -> bool:
        """Whether the stored decision is this one, byte for byte."""
        return _encode(decision).decode() == self.decision


class CompactEntry(msgspec.Struct, frozen=True, gc=False):
    """One journaled authorization with compact texts, which are read as values. It answers as the ``Entry``
    with its full texts does."""

    card_id: str
    seq: int
    at_ms: int
    kind: str
    row: StoredRow
    configuration: KnownConfiguration | None
    """The configuration that the inputs name; ``None`` if it is missing."""
    concerns_account: bool = True
    continues_card: bool = False

    @property
    def has_texts(self) -> bool:
        """Whether inputs and decision are known."""
        return self.configuration is not None

    @property
    def account_version(self) -> int | None:
        """The version of the account that the decision saw; ``None`` without inputs."""
        if self.configuration is None or self.row.inputs is None:
            return None
        return int(_decode(self.row.inputs)[_COMPACT_ACCOUNT_VERSION])

    @property
    def declined(self) -> bool:
        """Whether the decision is a decline, or there is none."""
        return self.configuration is None or len(_decode(self.row.reply)) > _REASON

    @property
    def inputs(self) -> str | None:
        """The full inputs."""
        return None if self.configuration is None else self.in_full().inputs

    @property
    def decision(self) -> str | None:
        """The full decision."""
        return None if self.configuration is None else self.in_full().decision

    def read_command(self) -> CardCommand:
        """The command. Raises ``msgspec.DecodeError``."""
        return plain_command(self.row)

    def has_inputs(self, inputs: Inputs) -> bool:
        """Whether the stored inputs are these, byte for byte."""
        assert self.configuration is not None, "has_texts"
        return has_inputs(self.row, inputs, self.configuration) or self.in_full().has_inputs(inputs)

    def has_decision(self, decision: Decision, day_before: str) -> bool:
        """Whether the stored decision is this one, byte for byte; ``day_before`` is the day of its inputs."""
        return has_decision(self.row, decision, day_before) or self.in_full().has_decision(
            decision, day_before
        )

    def in_full(self) -> Entry:
        """The same command with its full texts."""
        configuration = self.configuration
        assert configuration is not None, "has_texts"
        full = expanded(self.row, lambda _digest: configuration.stored)
        return Entry(self.card_id, self.seq, self.at_ms, self.kind, full.command, full.inputs, full.decision)


JournalEntry = Entry | CompactEntry


def account_version(inputs: str) -> int:
    """The account's version in stored inputs of any layout."""
    values = _decode(inputs)
    index = _ACCOUNT_VERSION + (values[0] < _LAYOUTS_MAX)
    return int(values[index]) if len(values) > index else 0
