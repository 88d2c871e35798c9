"""Holds: reserved money of one approved authorization (spec 3.5)."""

from __future__ import annotations

from typing import Final

import msgspec

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "held": frozenset({"captured", "released", "lapsed"}),
    "captured": frozenset(),
    "released": frozenset(),
    "lapsed": frozenset(),
}
"""Hold state: from each to which; an absent pair is the illegal move."""


class Hold(msgspec.Struct, eq=False, gc=False):
    """An open hold. It stops counting at ``expires_ms``, whether or not it has been swept."""

    id: str
    card_id: str
    authorization_id: str
    amount_minor: int
    expires_ms: int
    place: int = -1
    """In the account's heap of expiries (``engine.cards.expiries``)."""

    def __eq__(self, other: object) -> bool:
        """Where a hold stands in the heap tells how it came there, and nothing about it."""
        return isinstance(other, Hold) and _facts(self) == _facts(other)

    __hash__ = None  # type: ignore[assignment]


def _facts(hold: Hold) -> tuple[str, str, str, int, int]:
    return hold.id, hold.card_id, hold.authorization_id, hold.amount_minor, hold.expires_ms
