"""The outages of a programme's decision endpoint, with the used part of their budgets.

The programme's owner writes a row for each budget of an outage: another currency of the policy begins a new
one.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import asyncpg
import msgspec
from fastapi import Query
from starlette.responses import Response

from api.http.fields import Currency, Id, Instant, ShownAmount, shown_instant
from api.http.refusals import refusals
from api.http.validation import View
from api.operations.call import PathId, ReadCall
from api.operations.pagination import PageQuery, page, page_model
from api.operations.route import new_router
from api.programmes.routes import require_programme
from engine.money import format_minor

router = new_router("Stand-in")

_SELECT: Final = """
    SELECT r.id::text, r.programme_id::text, r.started_at, b.ended_at, b.budgets
    FROM outages r CROSS JOIN LATERAL (
        SELECT (array_agg(p.ended_at ORDER BY p.period DESC))[1] AS ended_at,
            json_agg(json_build_array(p.currency, p.used_minor) ORDER BY p.period)::text AS budgets
        FROM outages p WHERE p.id = r.id) b
"""
_FIRST_BUDGET: Final = "r.period = (SELECT min(p.period) FROM outages p WHERE p.id = r.id)"
"""One row of each outage."""
_budgets = msgspec.json.Decoder(list[tuple[str | None, int]]).decode


class BudgetView(View):
    """The exposure of approvals in stand-in under one budget."""

    currency: Currency | None
    """Null if the policy had no budget: every authorization was declined."""
    used: ShownAmount


class OutageView(View):
    """An outage: from the first decision in stand-in to the first usable answer of the endpoint."""

    id: Id
    programme_id: Id
    started_at: Instant
    ended_at: Instant | None
    """Null while the outage lasts."""
    budgets: list[BudgetView]
    """Oldest first. A change of the policy's currency during an outage begins another budget."""


@router.get(
    "/v1/programs/{id}/outages",
    response_model=page_model("Outages", OutageView),
    responses=refusals("not-found", "invalid-cursor"),
)
async def list_outages(
    programme_id: PathId, query: Annotated[PageQuery, Query()], call: ReadCall
) -> Response:
    """List the outages of a programme's endpoint, newest first.

    An outage that lasts is the first one, and its `ended_at` is null.
    """
    await require_programme(call, programme_id)
    return await page(
        call.services,
        call.caller,
        query,
        table="outages",
        select=_SELECT,
        filters={"r.programme_id = ?::uuid": programme_id},
        always=_FIRST_BUDGET,
        show=_show,
    )


def _show(row: asyncpg.Record) -> dict[str, Any]:
    return {
        "id": row["id"],
        "programme_id": row["programme_id"],
        "started_at": shown_instant(row["started_at"]),
        "ended_at": row["ended_at"] and shown_instant(row["ended_at"]),
        "budgets": [
            {"currency": currency, "used": format_minor(used_minor)}
            for currency, used_minor in _budgets(row["budgets"])
        ],
    }
