"""Card look-ups by digest and by id."""

from __future__ import annotations

import asyncpg

from actors.network.card_secrets import CardSecrets
from actors.network.cards import IssuedCard, cards_by_digest, cards_by_id
from actors.network.database import NetworkDbConnection
from engine.pan import Pan
from tests.support.actors.network.rows import OTHER_ID, issue_card, reserve_pan
from tests.support.actors.network.support import CARD_ID, PAN

RESERVED_ID = "01900000-0000-7000-8000-0000000000b8"
RESERVED_PAN = "4111111111111129"


async def test_card_is_found_by_digest_and_by_id(database_url: str, card_secrets: CardSecrets) -> None:
    await issue_card(database_url, card_secrets, CARD_ID, PAN)
    db = NetworkDbConnection(database_url, "test-db")
    by_digest, by_id = cards_by_digest(db), cards_by_id(db, card_secrets)
    assert await by_digest.find(card_secrets.digest(PAN)) == IssuedCard(
        CARD_ID, 2029, 11, "1", False, OTHER_ID
    )
    credentials = await by_id.find(CARD_ID)
    assert credentials is not None
    assert (credentials.pan, credentials.expiry) == (PAN, "2911")
    assert type(credentials.pan) is Pan
    assert credentials.track_2 == card_secrets.track_2(PAN, 2029, 11, "1")
    assert credentials.chip_track_2 == card_secrets.chip_track_2(PAN, 2029, 11, "1")
    assert not any(part in repr(credentials) for part in ("4111", "2911", "201"))
    db.close()


async def test_reserved_number_is_not_found(database_url: str, card_secrets: CardSecrets) -> None:
    connection = await asyncpg.connect(database_url)
    await reserve_pan(connection, card_secrets, RESERVED_ID, RESERVED_PAN)
    await connection.close()
    db = NetworkDbConnection(database_url, "test-db")
    by_digest, by_id = cards_by_digest(db), cards_by_id(db, card_secrets)
    assert await by_digest.find(card_secrets.digest(RESERVED_PAN)) is None
    assert await by_id.find(RESERVED_ID) is None
    await issue_card_for_reserved(database_url, card_secrets)
    assert await by_digest.find(card_secrets.digest(RESERVED_PAN)) is not None
    db.close()


async def issue_card_for_reserved(database_url: str, card_secrets: CardSecrets) -> None:
    connection = await asyncpg.connect(database_url)
    await connection.execute("DELETE FROM pans")
    await connection.close()
    await issue_card(database_url, card_secrets, RESERVED_ID, RESERVED_PAN)


async def test_damaged_number_does_not_fail_the_batch(database_url: str, card_secrets: CardSecrets) -> None:
    await issue_card(database_url, card_secrets, CARD_ID, PAN)
    await issue_card(database_url, card_secrets, RESERVED_ID, RESERVED_PAN)
    connection = await asyncpg.connect(database_url)
    await connection.execute("UPDATE pans SET sealed = $1 WHERE card_id = $2", b"damaged", RESERVED_ID)
    await connection.close()
    db = NetworkDbConnection(database_url, "test-db")
    good, damaged = await cards_by_id(db, card_secrets).find_all([CARD_ID, RESERVED_ID])
    assert good is not None
    assert damaged is None
    db.close()
