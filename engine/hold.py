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


class Hold(msgspec.Struct, gc=False):
    """An open hold. It stops counting at ``expires_ms``, whether or not it has been swept."""

    id: str
    card_id: str
    authorization_id: str
    amount_minor: int
    expires_ms: int
