"""The ledger: the entries of an account, an authorization or a transfer.

The ids of entries derive from their commands, so the entries of an authorization or a transfer are found by
primary key: no further index is written with each entry.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
from fastapi import Query
from pydantic import model_validator
from starlette.responses import Response

from api.database.pool import fetch
from api.http.fields import Id, Instant, MoneyView, shown_instant
from api.http.refusals import refusals
from api.http.validation import View, broken
from api.operations.call import Call, ReadCall
from api.operations.pagination import WindowQuery, page, page_model
from api.operations.route import new_router
from engine.ids import Derived, derive
from engine.money import format_minor

router = new_router("Accounts")

_SELECT: Final = """
    SELECT r.id::text, r.transfer_id::text, r.account_id::text, r.direction, r.amount_minor, r.currency,
        r.authorization_id::text, r.created_at
    FROM tenant_ledger_entries r
"""
_COMMANDS: Final = """
    SELECT command::json ->> 'id' AS id FROM journal
    WHERE authorization_id = $1::uuid AND kind <> 'authorize'
"""


class EntryView(View):
    """One side of a transfer. The debits and credits of a transfer are equal; entries never change."""

    id: Id
    transfer_id: Id
    account_id: Id
    direction: Literal["debit", "credit"]
    """Seen from the account: a credit raises its balance."""
    amount: MoneyView
    authorization_id: Id | None
    """The transaction that was presented, refunded or reversed; null for loads and transfers."""
    created_at: Instant


class EntriesQuery(WindowQuery):
    """Filters of the list; at least one of the ids is required."""

    account_id: Id | None = None
    authorization_id: Id | None = None
    transfer_id: Id | None = None

    @model_validator(mode="after")
    def _require_id(self) -> EntriesQuery:
        if (self.account_id, self.authorization_id, self.transfer_id) == (None, None, None):
            raise broken("missing", "Give account_id, authorization_id or transfer_id.")
        return self


@router.get(
    "/v1/ledger-entries",
    response_model=page_model("LedgerEntries", EntryView),
    responses=refusals("invalid-cursor"),
)
async def list_ledger_entries(query: Annotated[EntriesQuery, Query()], call: ReadCall) -> Response:
    """List the entries of an account, an authorization or a transfer, newest first.

    Give at least one of `account_id`, `authorization_id` and `transfer_id`. `from` and `to` are a half-open
    window of instants.
    """
    filters = {
        "r.account_id = ?::uuid": query.account_id,
        "r.authorization_id = ?::uuid": query.authorization_id,
        "r.transfer_id = ?::uuid": query.transfer_id,
        "r.id = ANY (?::uuid[])": await _entry_ids(call, query),
        **query.around_window,
    }
    return await page(
        call.services,
        call.caller,
        query,
        table="tenant_ledger_entries",
        select=_SELECT,
        filters=filters,
        scanned=query.window,
        show=_show,
    )


async def _entry_ids(call: Call, query: EntriesQuery) -> list[str] | None:
    """The ids of all entries that can match, if a transfer or an authorization is given."""
    if query.transfer_id is not None:
        return _of_commands([derive(query.transfer_id, Derived.TRANSFER)])
    if query.authorization_id is not None:
        rows = await fetch(call.services.pool, _COMMANDS, query.authorization_id)
        # An authorized refund posts with the authorization itself.
        return _of_commands([query.authorization_id, *(row["id"] for row in rows)])
    return None


def _of_commands(ids: list[str]) -> list[str]:
    return [derive(id_, kind) for id_ in ids for kind in (Derived.ENTRY_DEBIT, Derived.ENTRY_CREDIT)]


def _show(row: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": row["id"],
        "transfer_id": row["transfer_id"],
        "account_id": row["account_id"],
        "direction": row["direction"],
        "amount": {"amount": format_minor(row["amount_minor"]), "currency": row["currency"]},
        "authorization_id": row["authorization_id"],
        "created_at": shown_instant(row["created_at"]),
    }
