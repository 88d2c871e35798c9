"""A hold: the reserved amount of one approved authorization."""

from __future__ import annotations

from typing import Final

import msgspec

TRANSITIONS: Final[dict[str, frozenset[str]]] = {
    "held": frozenset({"captured", "released", "lapsed"}),
    "captured": frozenset(),
    "released": frozenset(),
    "lapsed": frozenset(),
}
"""The next states of each hold state; a state that is not listed is an illegal transition."""


class Hold(msgspec.Struct, eq=False, gc=False):
    """An open hold. It stops counting at ``expires_ms``, whether or not it has been swept."""

    id: str
    card_id: str
    authorization_id: str
    amount_minor: int
    expires_ms: int
    heap_index: int = -1
    """Its index in the account's heap (``engine.cards.expiries``)."""

    def __eq__(self, other: object) -> bool:
        """Compare all fields except the index in the heap, which depends on the history of the heap."""
        return isinstance(other, Hold) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]


def _fields(hold: Hold) -> tuple[str, str, str, int, int]:
    return hold.id, hold.card_id, hold.authorization_id, hold.amount_minor, hold.expires_ms
