"""``stanchion cards show-test``: the numbers of test cards, for a user's own ISO 8583 simulator.

The API never returns a card number. Only an operator with the installation's keys can read those of test
cards, and the numbers of live cards are refused here too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import asyncpg

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.ids import is_id
from ops.database.operator_connection import connect_operator

_COLUMNS: Final = "c.id::text AS id, c.live, c.exp_month, c.exp_year, c.cvk_generation, p.sealed"
_CARDS: Final = f"SELECT {_COLUMNS} FROM cards c JOIN pans p ON p.card_id = c.id"
_BY_ID: Final = f"{_CARDS} WHERE c.id = ANY ($1::uuid[])"
_OF_PROGRAMME: Final = f"{_CARDS} WHERE c.programme_id = $1::uuid ORDER BY c.id"
_PROGRAMME: Final = "SELECT live FROM programmes WHERE id = $1::uuid"

Connection: TypeAlias = "asyncpg.Connection[asyncpg.Record]"


class ShowCardsError(Exception):
    """The cards cannot be shown. The message is one line without card data."""


@dataclass(frozen=True)
class ShownCard:
    """The data of one test card, as a terminal and a cardholder have them. Its ``repr`` shows the id only."""

    card_id: str
    pan: str = field(repr=False)
    exp_month: int = field(repr=False)
    exp_year: int = field(repr=False)
    track2: str = field(repr=False)
    """The magnetic stripe without sentinels, as DE35 has it."""
    cvv2: str = field(repr=False)


async def show_test(
    dsn: str, vault: Vault, card_ids: Sequence[str] = (), programme_id: str | None = None
) -> list[ShownCard]:
    """The cards with ``card_ids``, in their order, or all cards of a programme, oldest first. Raises
    ShowCardsError if one is unknown or live, and VaultError if a number cannot be opened."""
    if bool(card_ids) == (programme_id is not None):
        raise ShowCardsError("give either card ids or --programme")
    connection = await connect_operator(dsn)
    try:
        rows = await (
            _of_programme(connection, programme_id) if programme_id else _by_id(connection, card_ids)
        )
    finally:
        await connection.close(timeout=10)
    for row in rows:
        if row["live"]:
            raise ShowCardsError(f"{row['id']} is a live card; its number is never shown")
    card_secrets = CardSecrets(vault)
    return [_opened(card_secrets, row) for row in rows]


async def _by_id(connection: Connection, card_ids: Sequence[str]) -> list[Any]:
    wanted = list(dict.fromkeys(card_id.lower() for card_id in card_ids))
    rows = await connection.fetch(_BY_ID, [card_id for card_id in wanted if is_id(card_id)])
    found = {row["id"]: row for row in rows}
    for card_id in wanted:
        if card_id not in found:
            # The argument might be a card number, so it is not repeated.
            raise ShowCardsError(f"argument {wanted.index(card_id) + 1} is not the id of a card")
    return [found[card_id] for card_id in wanted]


async def _of_programme(connection: Connection, programme_id: str) -> list[Any]:
    wanted = programme_id.lower()
    live = await connection.fetchval(_PROGRAMME, wanted) if is_id(wanted) else None
    if live is None:
        raise ShowCardsError("no programme has this id")
    if live:
        raise ShowCardsError("this is a live programme; its card numbers are never shown")
    return list(await connection.fetch(_OF_PROGRAMME, wanted))


def _opened(card_secrets: CardSecrets, row: Any) -> ShownCard:
    pan = card_secrets.open(row["id"], bytes(row["sealed"]))
    card = (pan, row["exp_year"], row["exp_month"], row["cvk_generation"])
    return ShownCard(
        card_id=row["id"],
        pan=pan[:],
        exp_month=row["exp_month"],
        exp_year=row["exp_year"],
        track2=card_secrets.track_2(*card)[:],
        cvv2=card_secrets.cvv2(*card),
    )
