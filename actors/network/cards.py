"""Look-ups of issued cards: by digest of the number at the edge, by id in the simulated network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from actors.network.card_secrets import CardSecrets
from actors.network.database import NetworkDbConnection
from actors.network.lookup import Lookup
from actors.vault import VaultError
from engine.limits import PAN_CACHE_MAX
from engine.pan import Masked, Pan


class IssuedCard(msgspec.Struct, frozen=True, gc=False):
    """The data of a card that the edge needs to route a message and to check card data. Immutable."""

    card_id: str
    exp_year: int
    exp_month: int
    cvk_generation: str
    live: bool = False
    programme_id: str = ""


class CardCredentials(msgspec.Struct, frozen=True, gc=False):
    """The card data that a terminal reads."""

    pan: Pan
    expiry: Masked
    """YYMM."""
    track_2: Masked
    """The magnetic stripe."""
    chip_track_2: Masked
    """The chip's copy of it."""


CardsByDigest = Lookup[bytes, IssuedCard]
CardsById = Lookup[str, CardCredentials]


def cards_by_digest(db: NetworkDbConnection, capacity: int = PAN_CACHE_MAX) -> CardsByDigest:
    """Issued cards by ``CardSecrets.digest`` of their number. A reserved number has no card and is not
    found."""

    async def fetch(digests: list[bytes]) -> Mapping[bytes, IssuedCard]:
        rows = await db.fetch("find_cards", digests)
        return {
            row["digest"]: IssuedCard(**{name: row[name] for name in IssuedCard.__struct_fields__})
            for row in rows
        }

    return Lookup(fetch, capacity)


def cards_by_id(
    db: NetworkDbConnection, card_secrets: CardSecrets, capacity: int = PAN_CACHE_MAX
) -> CardsById:
    """Numbers and expiries of issued cards by their id."""

    async def fetch(card_ids: list[str]) -> Mapping[str, CardCredentials]:
        rows = await db.fetch("open_cards", card_ids)
        opened = {row["card_id"]: _credentials(card_secrets, row) for row in rows}
        return {card_id: credentials for card_id, credentials in opened.items() if credentials is not None}

    return Lookup(fetch, capacity)


def _credentials(card_secrets: CardSecrets, row: Any) -> CardCredentials | None:
    """``None`` if the number cannot be decrypted: one damaged row must not fail the whole batch."""
    try:
        pan = card_secrets.open(row["card_id"], row["sealed"])
    except VaultError:
        return None
    return credentials_of(card_secrets, pan, row["exp_year"], row["exp_month"], row["cvk_generation"])


def credentials_of(
    card_secrets: CardSecrets, pan: Pan, exp_year: int, exp_month: int, generation: str
) -> CardCredentials:
    """The card data of an issued card."""
    card = (pan, exp_year, exp_month, generation)
    return CardCredentials(
        pan,
        Masked(f"{exp_year % 100:02d}{exp_month:02d}"),
        card_secrets.track_2(*card),
        card_secrets.chip_track_2(*card),
    )
