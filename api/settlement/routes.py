"""The operation on settlement reports."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import Field
from starlette.responses import Response

from api.database.pool import connected
from api.http.answers import json_response
from api.http.fields import Day, Id, Instant, ShownAmount, example, shown_instant
from api.http.problems import FieldError, Refusal
from api.http.refusals import refusals
from api.http.validation import Input, View
from api.operations.call import ReadCall
from api.operations.route import new_router
from api.programmes.routes import require_programme
from api.settlement.report import PARTS, Line, Part, lines_of, window_of
from engine.instant import to_datetime
from engine.money import format_minor

router = new_router("Settlement")


class ReportQuery(Input):
    """The programme and the day."""

    programme_id: Id
    date: Annotated[Day, example("2026-11-21")]
    """The day in the programme's time zone."""


class PartView(View):
    """A number of transactions or ledger entries, and the sum of their amounts."""

    count: int
    amount: ShownAmount


class LineView(View):
    """The amounts of one network and currency."""

    network: Literal["visa", "mastercard"] | None
    """Null for ledger entries that belong to no transaction."""
    currency: str
    authorized: PartView
    """Approved purchases that began on the day, with their increments. They are not posted yet, so they are
    not part of `net`."""
    presented: PartView
    """Ledger entries of presentments, force posts included."""
    refunded: PartView
    """Ledger entries of refunds, less those that were reversed."""
    fees: PartView
    """Ledger entries of transfers of the kind `fee`, less those that were reversed. They are between cards
    and the funding source, so they are not part of `net`."""
    net: ShownAmount
    """`presented` − `refunded`: the change of the programme's settlement account."""


class SettlementReportView(View):
    """The settlement report of one programme and day. Its sums equal those of the ledger."""

    programme_id: Id
    date: str
    timezone: str
    from_: Annotated[Instant, Field(alias="from")]
    to: Instant
    as_of: Instant
    """The report has all entries up to this instant."""
    final: bool
    """Whether the day is over, so that the posted amounts do not change any more."""
    lines: list[LineView]


@router.get(
    "/v1/settlement-reports",
    response_model=SettlementReportView,
    responses=refusals("not-found"),
)
async def get_settlement_report(query: Annotated[ReportQuery, Query()], call: ReadCall) -> Response:
    """Get the settlement report of a programme for one day.

    The day begins and ends in the programme's time zone.
    """
    programme = await require_programme(call, query.programme_id)
    window = window_of(query.date, programme.timezone)
    now = to_datetime(call.services.clock.now_ms())
    if window[0] > now:
        begun = FieldError("/date", "range", "The day has not begun in the programme's time zone.")
        raise Refusal("validation-failed", errors=[begun])
    async with (
        connected(call.services.pool) as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        lines = await lines_of(connection, programme.id, window)
        as_of: datetime = await connection.fetchval("SELECT now()")
    return json_response(
        200,
        {
            "programme_id": programme.id,
            "date": query.date,
            "timezone": programme.timezone,
            "from": shown_instant(window[0]),
            "to": shown_instant(window[1]),
            "as_of": shown_instant(as_of),
            "final": window[1] <= as_of,
            "lines": [_line(line) for line in lines],
        },
    )


def _line(line: Line) -> dict[str, Any]:
    parts = {name: _part(getattr(line, name)) for name in PARTS}
    return {
        "network": line.network,
        "currency": line.currency,
        **parts,
        "net": format_minor(line.net_minor),
    }


def _part(part: Part) -> dict[str, Any]:
    return {"count": part.count, "amount": format_minor(part.amount_minor)}
