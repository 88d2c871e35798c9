"""Reserving a card number: drawn under the product's prefix, unique by its keyed hash, at rest only sealed.

The number is reserved before the card is created, so a card that exists always has one. A reservation whose
card was refused is given back; one whose request ended in between is given back by the sweeper
(``api.sweepers.cardholders``) when there is no card.
"""

from __future__ import annotations

import secrets
from typing import Final

from api.cardholders.status import reserve_issue
from api.database.pool import connected, transaction
from api.services import Services
from engine.pan import Pan, body_digits, pan_under

DIGEST_PURPOSE: Final = "pan-lookup"
SEAL_PURPOSE: Final = "pan"
DRAWS_MAX: Final = 100
"""Collisions in a row before giving up: the prefix is all but full."""

_RESERVE: Final = (
    "INSERT INTO pans (digest, card_id, sealed) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1"
)
_GIVE_BACK: Final = """
    WITH issue AS (DELETE FROM card_issues WHERE card_id = $1::uuid)
    DELETE FROM pans WHERE card_id = $1::uuid AND NOT EXISTS (SELECT 1 FROM cards WHERE id = $1::uuid)
"""


async def reserve(services: Services, card_id: str, iin: str, cardholder_id: str) -> Pan:
    """A number under ``iin`` that no other card has, now in custody for ``card_id``, which is being issued to
    the cardholder from now on.
    """
    vault = services.vault
    async with transaction(services.pool) as connection:
        await reserve_issue(connection, services, card_id, cardholder_id)
        for _ in range(DRAWS_MAX):
            pan = pan_under(iin, _digits(body_digits(iin)))
            number = pan.encode()
            sealed = vault.seal(SEAL_PURPOSE, number, card_id.encode())
            if await connection.fetchval(_RESERVE, vault.digest(DIGEST_PURPOSE, number), card_id, sealed):
                return pan
    raise RuntimeError("no free card number was found under the prefix")


async def give_back(services: Services, card_id: str) -> None:
    """Free the number of a card that was not created."""
    async with connected(services.pool) as connection:
        await connection.execute(_GIVE_BACK, card_id)


def _digits(count: int) -> str:
    return f"{secrets.randbelow(10**count):0{count}d}"
