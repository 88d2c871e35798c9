"""Operations on accounts.

The balance of a card account comes from its owner. Funding sources and settlement accounts have no owner in
memory: their balances are sums of ``account_sums``, which each commit of an entry updates.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from fastapi import Query
from starlette.responses import Response

from api.database.pool import fetch_row
from api.http.answers import json_response
from api.http.fields import Currency, Id, Instant, ShownAmount, shown_instant
from api.http.problems import not_found
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.call import Call, PathId, ReadCall
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.operations.submission import submit
from engine.commands import ReadBalance
from engine.ids import Derived, derive, key_of
from engine.money import format_minor

router = new_router("Accounts")

SELECT: Final = """
    SELECT r.id::text, r.programme_id::text, r.kind, r.currency, r.held_minor, now() AS as_of,
        r.posted_minor + sums.posted_minor AS posted_minor, r.version + sums.entries AS version,
        (SELECT count(*) FROM cards c WHERE c.account_id = r.id) AS cards
    FROM accounts r CROSS JOIN LATERAL (
        SELECT coalesce(sum(s.posted_minor), 0)::bigint AS posted_minor,
            coalesce(sum(s.entries), 0)::bigint AS entries
        FROM account_sums s WHERE s.account_id = r.id) sums
"""
_FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"
_FROM_OWNER: Final = ("posted", "held", "available", "as_of", "version")

AccountKind = Literal["card", "funding_source", "settlement"]


class AccountView(View):
    """An account: `available` = `posted` − `held`.

    `card` accounts fund cards. Each programme has a `funding_source`, the other side of loads and transfers,
    and a `settlement` account, the other side of presentments and refunds.
    """

    id: Id
    programme_id: Id
    kind: AccountKind
    currency: Currency
    posted: ShownAmount
    held: ShownAmount
    available: ShownAmount
    cards: int
    """Cards that the account funds."""
    as_of: Instant
    version: int
    """Rises with each change of the balance."""


class AccountsQuery(PageQuery):
    """Filters of the list."""

    programme_id: Id | None = None
    kind: AccountKind | None = None


@router.get(
    "/v1/accounts", response_model=page_model("Accounts", AccountView), responses=refusals("invalid-cursor")
)
async def list_accounts(query: Annotated[AccountsQuery, Query()], call: ReadCall) -> Response:
    """List accounts, newest first.

    The balances are those in the database: a hold past its expiry counts until it is closed, within seconds.
    """
    return await page(
        call.services,
        call.caller,
        query,
        table="accounts",
        select=SELECT,
        filters={"r.programme_id = ?::uuid": query.programme_id},
        scanned={"r.kind = ?": query.kind},
        show=_show,
    )


@router.get("/v1/accounts/{id}", response_model=AccountView, responses=refusals("not-found"))
async def get_account(account_id: PathId, call: ReadCall) -> Response:
    """Get an account with its current balance."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, account_id, caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    shown = _show(row)
    return json_response(200, shown | await _balance(call, account_id) if row["kind"] == "card" else shown)


async def _balance(call: Call, account_id: str) -> dict[str, Any]:
    """The present balance of a card account, from the owner of the card that opened it."""
    id_ = call.services.new_id()
    command = ReadBalance(
        id=id_,
        command_key=key_of(id_),
        card_id=opening_card(account_id),
        tenant_id=call.caller.tenant_id,
        live=call.caller.live,
    )
    balance = msgspec.json.decode(bytes((await submit(call, command)).body))
    return {name: balance[name] for name in _FROM_OWNER}


def opening_card(account_id: str) -> str:
    """The id of the card with which a card account was opened."""
    return derive(account_id, Derived.ACCOUNT)


def _show(row: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": row["id"],
        "programme_id": row["programme_id"],
        "kind": row["kind"],
        "currency": row["currency"],
        "posted": format_minor(row["posted_minor"]),
        "held": format_minor(row["held_minor"]),
        "available": format_minor(row["posted_minor"] - row["held_minor"]),
        "cards": row["cards"],
        "as_of": shown_instant(row["as_of"]),
        "version": row["version"],
    }
