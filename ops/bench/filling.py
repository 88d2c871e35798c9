"""Cards in bulk: built by the engine and the owners' row code, inserted with COPY.

This bypasses the API, the router and the commit's fence. Owners read such cards on first use, like any other.
Their opening balances have no ledger entries, so the books of such a database do not balance.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

import asyncpg

from actors.cards.card_actor import CardActor
from actors.cards.rows import write_command
from actors.ids import new_id, new_id_beside
from actors.journal.contract import Rows
from engine.cards.account import Account
from engine.commands import CreateCard
from engine.execution import issuing
from engine.ids import key_of

PART: Final = 5_000
"""Cards in one COPY."""
FILLED: Final = ("journal_rows", "accounts", "cards", "card_usage", "event_rows")
"""The tables that receive rows."""
_MODEL: Final = """
    SELECT tenant_id::text, live, programme_id::text, card_product_id::text, cardholder_id::text, network,
           currency, iin, cvk_generation
    FROM cards WHERE id = $1
"""
_EPOCH_MS: Final = 946_684_800_000


async def fill_cards(dsn: str, like: str, count: int, funds_minor: int) -> list[str]:
    """Insert ``count`` active cards with the programme, product and cardholder of card ``like``, each with
    its own account; returns their ids."""
    connection = await asyncpg.connect(dsn)
    try:
        await connection.set_type_codec(
            "timestamptz",
            schema="pg_catalog",
            format="tuple",
            encoder=lambda at_ms: ((at_ms - _EPOCH_MS) * 1000,),
            decoder=lambda micros: micros[0] // 1000 + _EPOCH_MS,
        )
        model = dict(await connection.fetchrow(_MODEL, like) or {})
        made: list[str] = []
        while len(made) < count:
            rows = _part(model, min(PART, count - len(made)), funds_minor)
            await _copy(connection, rows)
            made += rows.cards
        return made
    finally:
        await connection.close(timeout=10)


def _part(model: Mapping[str, Any], count: int, funds_minor: int) -> Rows:
    """The rows of ``count`` cards."""
    rows, now_ms = Rows(), time.time_ns() // 1_000_000
    for _ in range(count):
        id_ = new_id()
        account_id = new_id_beside(id_)
        command = CreateCard(
            id=id_,
            command_key=key_of(id_),
            account_id=account_id,
            opens_account=True,
            last4="0000",
            pan_ref=id_,
            exp_month=12,
            exp_year=2099,
            state="active",
            controls=(),
            **model,
        )
        owned = {name: model[name] for name in ("tenant_id", "live", "programme_id", "currency")}
        account = Account(id=account_id, posted_minor=funds_minor, **owned)
        card = issuing.card_of(command, now_ms)
        executed = issuing.issue(command, card, account)
        write_command(rows, command, CardActor(card, account), executed, None, 0, now_ms)
    return rows


async def _copy(connection: asyncpg.Connection[asyncpg.Record], rows: Rows) -> None:
    tables: dict[str, Sequence[tuple[Any, ...]]] = {
        "journal_rows": rows.journal,
        "accounts": list(rows.accounts.values()),
        "cards": list(rows.cards.values()),
        "card_usage": list(rows.usage.values()),
    }
    async with connection.transaction():
        for table, records in tables.items():
            await connection.copy_records_to_table(table, records=records)
        # The last column is the transaction id, which the database assigns.
        columns = ["id", "tenant_id", "live", "type", "created_at", "data"]
        records = [event[:-1] for event in rows.events]
        await connection.copy_records_to_table("event_rows", columns=columns, records=records)
