"""Reservation of card numbers: drawn under the product's prefix, unique by keyed hash, stored only sealed.

The number is reserved before the card is created, so every card has a number. If the card is refused, the
request releases the reservation. If the request ends before it can, the sweeper
(``api.sweepers.cardholders``) releases the number, provided that there is no card."""

from __future__ import annotations

import secrets
from typing import Final

from api.cardholders.status import reserve_issue
from api.database.pool import connected, transaction
from api.services import Services
from engine.pan import Pan, body_digits, build_pan

DIGEST_PURPOSE: Final = "pan-lookup"
SEAL_PURPOSE: Final = "pan"
DRAWS_MAX: Final = 100
"""Largest number of draws. That many collisions in a row mean that the prefix is almost full."""

_RESERVE: Final = (
    "INSERT INTO pans (digest, card_id, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1"
)
_GIVE_BACK: Final = """
    WITH issue AS (DELETE FROM card_issues WHERE card_id = $1::uuid)
    DELETE FROM pans WHERE card_id = $1::uuid AND NOT EXISTS (SELECT 1 FROM cards WHERE id = $1::uuid)
"""


async def reserve(services: Services, card_id: str, iin: str, cardholder_id: str) -> Pan:
    """Reserve an unused number under ``iin`` for ``card_id``, and record that the card is being issued to the
    cardholder.
    """
    vault = services.vault
    async with transaction(services.pool) as connection:
        await reserve_issue(connection, services, card_id, cardholder_id)
        for _ in range(DRAWS_MAX):
            pan = build_pan(iin, _digits(body_digits(iin)))
            number = pan.encode()
            sealed = vault.seal(SEAL_PURPOSE, number, card_id.encode())
            if await connection.fetchval(_RESERVE, vault.digest(DIGEST_PURPOSE, number), card_id, sealed):
                return pan
    raise RuntimeError("no free card number was found under the prefix")


async def give_back(services: Services, card_id: str) -> None:
    """Release the number of a card that was not created."""
    async with connected(services.pool) as connection:
        await connection.execute(_GIVE_BACK, card_id)


def _digits(count: int) -> str:
    return f"{secrets.randbelow(10**count):0{count}d}"
