"""Rows of cards and card numbers, which the API writes and the network reads."""

from __future__ import annotations

import asyncpg

from actors.network.card_secrets import CardSecrets

TENANT_ID = "01900000-0000-7000-8000-000000000001"
OTHER_ID = "01900000-0000-7000-8000-000000000002"

_INSERT_CARD = """
INSERT INTO cards (
    id, tenant_id, live, programme_id, card_product_id, cardholder_id, account_id, network, currency, iin,
    last4, pan_ref, exp_month, exp_year, cvk_generation, state, controls, created_at
) VALUES ($1, $2, $4, $3, $3, $3, $3, 'visa', 'EUR', '411111', '1111', 'ref', 11, 2029, '1', $5, '[]', now())
"""


async def issue_card(database_url: str, card_secrets: CardSecrets, card_id: str, pan: str) -> None:
    """Insert a card and its number."""
    connection = await asyncpg.connect(database_url)
    await reserve_pan(connection, card_secrets, card_id, pan)
    await connection.close()
    await add_card(database_url, card_id)


async def add_card(
    database_url: str,
    card_id: str,
    *,
    tenant_id: str = TENANT_ID,
    live: bool = False,
    state: str = "active",
) -> None:
    """Insert a card."""
    connection = await asyncpg.connect(database_url)
    await connection.execute(_INSERT_CARD, card_id, tenant_id, OTHER_ID, live, state)
    await connection.close()


async def reserve_pan(
    connection: asyncpg.Connection[asyncpg.Record], card_secrets: CardSecrets, card_id: str, pan: str
) -> None:
    """Insert a card number that has no card."""
    await connection.execute(
        "INSERT INTO pans (digest, card_id, sealed) VALUES ($1, $2, $3)",
        card_secrets.digest(pan),
        card_id,
        card_secrets.seal(card_id, pan),
    )
