"""Look-ups of test cards' states, batched over requests.

Only spends through a simulated network of the release before need them (``Network.spend``). They use one
dedicated connection with a prepared plan. Taking a connection from the pool for each look-up would cost as
much as the statement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NoReturn

from actors.batcher import Coalescer
from actors.database import INDEX_PLANS, DbConnection
from api.database.pool import STATEMENT_SECONDS, session
from api.http.problems import Refusal, not_found

# The ids are passed twice, so that a cached plan reads no other cards.
_STATES: Final = """
    SELECT asked.number, c.state
    FROM unnest($1::uuid[], $2::uuid[]) WITH ORDINALITY AS asked (card_id, tenant_id, number)
    JOIN cards c ON c.id = asked.card_id AND c.tenant_id = asked.tenant_id AND NOT c.live
    WHERE c.id = ANY ($1::uuid[])
"""


def card_state_connection(dsn: str) -> DbConnection:
    """The connection for ``CardStates``."""
    milliseconds = round(STATEMENT_SECONDS * 1000)
    return DbConnection(
        dsn,
        "stanchion-api",
        {"card_states": _STATES},
        timeout_ms=milliseconds,
        session=session() | INDEX_PLANS,
    )


def refuse_card(state: str | None) -> NoReturn:
    """Raise ``Refusal`` for a card in ``state``, which is not active; ``None``: the tenant has no such
    card."""
    if state is None:
        raise not_found()
    raise Refusal("card-not-active", f"The card is {state}.")


class CardStates:
    """``connection`` is a ``card_state_connection``; several instances may share it."""

    def __init__(self, connection: DbConnection) -> None:
        self._connection = connection
        self._states: Coalescer[tuple[str, str], str | None] = Coalescer(self._read)

    async def require_active(self, card_id: str, tenant_id: str) -> None:
        """Raise ``Refusal`` 404 unless the tenant has the card, 409 unless it is active."""
        state = await self._states.get((card_id, tenant_id))
        if state != "active":
            refuse_card(state)

    async def _read(self, asked: Sequence[tuple[str, str]]) -> list[str | None]:
        rows = await self._connection.fetch(
            "card_states", [card_id for card_id, _ in asked], [tenant_id for _, tenant_id in asked]
        )
        states: list[str | None] = [None] * len(asked)
        for row in rows:
            states[row["number"] - 1] = row["state"]
        return states
