"""Creates programmes and cards through the API, and reads the card numbers from custody."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import asyncpg

from actors.network.card_secrets import CardSecrets
from actors.settings import Settings
from actors.vault import Vault
from ops.chaos.traffic.shoppers import Plastic
from ops.commands.decide import declare
from stanchion import Client, money

_NUMBERS = (
    "SELECT p.card_id::text, p.sealed, c.exp_year, c.exp_month"
    " FROM pans p JOIN cards c ON c.id = p.card_id WHERE p.card_id = ANY($1::text[]::uuid[])"
)


def new_product(api: Client, programme_id: str) -> str:
    """Create a card product in euros; returns its id."""
    product = api.card_products.create(
        programme_id=programme_id,
        name="Chaos",
        network="visa",
        currency="EUR",
        form_factor="virtual",
        iin="45600000",
    )
    return product["id"]


def new_cards(
    api: Client, programme_id: str, count: int, *, funds: str | None = None, declared: str | None = None
) -> list[str]:
    """Create cards: ``funds`` are loaded on each, ``declared`` is its declared balance for stand-in."""
    product_id = new_product(api, programme_id)
    holder: Any = api.cardholders.create(
        programme_id=programme_id, given_name="Ada", family_name="Byron", email="ada@example.com"
    )
    cards = []
    for _ in range(count):
        card = api.cards.create(card_product_id=product_id, cardholder_id=holder["id"])
        if funds is not None:
            api.cards.load(card["id"], money(funds, "EUR"))
        if declared is not None:
            declare(api, card["id"], declared)
        cards.append(card["id"])
    return cards


async def plastics(
    connection: asyncpg.Connection[asyncpg.Record], var_dir: Path, card_ids: Iterable[str]
) -> list[Plastic]:
    """The cards' data for terminals, in the order of ``card_ids``."""
    card_secrets = CardSecrets(Vault.from_settings(Settings.load(var_dir=var_dir)))
    wanted = list(card_ids)
    found = {
        row["card_id"]: Plastic(
            row["card_id"],
            "".join(card_secrets.open(row["card_id"], row["sealed"])),
            f"{row['exp_year'] % 100:02d}{row['exp_month']:02d}",
        )
        for row in await connection.fetch(_NUMBERS, wanted)
    }
    return [found[card_id] for card_id in wanted]
