"""Cards as the two sides of the wire know them: by their number at the edge, by their id in the simulated
network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.network.custody import CardCustody
from actors.network.database import Lane
from actors.network.lookup import Lookup
from actors.vault import VaultError
from engine.limits import PAN_CACHE_MAX
from engine.pan import Masked, Pan


class CardOnFile(msgspec.Struct, frozen=True, gc=False):
    """What the edge needs of a card to route a message and to check its CVV2. None of it ever changes."""

    card_id: str
    exp_year: int
    exp_month: int
    cvk_generation: str
    live: bool = False


class Plastic(msgspec.Struct, frozen=True, gc=False):
    """What a terminal reads from a card."""

    pan: Pan
    expiry: Masked
    """YYMM."""


CardsByDigest = Lookup[bytes, CardOnFile]
CardsById = Lookup[str, Plastic]


def cards_by_digest(lane: Lane, capacity: int = PAN_CACHE_MAX) -> CardsByDigest:
    """Issued cards by ``CardCustody.digest`` of their number; a number in reserve belongs to no card yet."""

    async def fetch(digests: list[bytes]) -> Mapping[bytes, CardOnFile]:
        rows = await lane.fetch("find_cards", digests)
        return {
            row["digest"]: CardOnFile(
                row["card_id"], row["exp_year"], row["exp_month"], row["cvk_generation"], row["live"]
            )
            for row in rows
        }

    return Lookup(fetch, capacity)


def cards_by_id(lane: Lane, custody: CardCustody, capacity: int = PAN_CACHE_MAX) -> CardsById:
    """Numbers and expiries of issued cards by their id."""

    async def fetch(card_ids: list[str]) -> Mapping[str, Plastic]:
        rows = await lane.fetch("open_cards", card_ids)
        opened = {row["card_id"]: _plastic(custody, row) for row in rows}
        return {card_id: plastic for card_id, plastic in opened.items() if plastic is not None}

    return Lookup(fetch, capacity)


def _plastic(custody: CardCustody, row: Any) -> Plastic | None:
    """``None`` for a number that does not open: one damaged row must not fail its neighbours in the batch."""
    try:
        pan = custody.open(row["card_id"], row["sealed"])
    except VaultError:
        return None
    return Plastic(pan, Masked(f"{row['exp_year'] % 100:02d}{row['exp_month']:02d}"))
