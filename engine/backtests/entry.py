"""A row of the journal, as a back-test reads it."""

from __future__ import annotations

from typing import Final

import msgspec

_ASIDE: Final = frozenset(
    {"create_card", "replace_card", "change_card", "set_cardholder_status", "declare_balance"}
)
"""Kinds of commands that change no balance."""


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
