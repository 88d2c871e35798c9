"""The turned decisions of a back-test as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any, Final

from starlette.responses import Response, StreamingResponse

from api.backtests.routes import find_backtest
from api.backtests.views import COUNTED, FLIPS, show_flip
from api.database.pool import fetch
from api.http.answers import json_bytes
from api.http.refusals import Responses, refusals
from api.operations.call import Call, PathId, ReadCall
from api.operations.pagination import LAST_ID
from api.operations.route import new_router

router = new_router("Back-tests")

ROWS: Final = 500
"""Rows that are read at once."""
MEDIA_TYPE: Final = "text/csv; charset=utf-8"
COLUMNS: Final = (
    "id",
    "authorization_id",
    "card_id",
    "decided_at",
    "operation",
    "direction",
    "rule",
    "amount",
    "currency",
    "mcc",
    "before_reason",
    "after_reason",
    "before_trace",
    "after_trace",
)
_CONTENT: Final[Responses] = {
    200: {
        "description": "The decisions, newest first, with a header.",
        "content": {"text/csv": {"schema": {"type": "string"}}},
    }
}
_PAGE: Final = f"""
    {FLIPS} WHERE r.backtest_id = $1::uuid AND r.tenant_id = $2 AND r.live = $3
        AND r.id < $4::uuid AND {COUNTED}
    ORDER BY r.id DESC LIMIT {ROWS}
"""


@router.get(
    "/v1/backtests/{id}/flips.csv",
    response_class=Response,
    responses=_CONTENT | refusals("not-found"),
)
async def download_backtest_flips(backtest_id: PathId, call: ReadCall) -> Response:
    """Download the decisions that the change turns, as CSV.

    The columns `before_trace` and `after_trace` hold JSON.
    """
    await find_backtest(call, backtest_id)
    headers = {
        "Content-Disposition": f'attachment; filename="flips-{backtest_id}.csv"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(_lines(call, backtest_id), 200, headers, MEDIA_TYPE)


async def _lines(call: Call, backtest_id: str) -> AsyncIterator[str]:
    """The lines in pieces. A connection is taken for each piece only: a slow reader holds none."""
    yield _csv([COLUMNS])
    before, caller = LAST_ID, call.caller
    while True:
        rows = await fetch(call.services.pool, _PAGE, backtest_id, caller.tenant_id, caller.live, before)
        if rows:
            yield _csv([_cells(show_flip(row)) for row in rows])
        if len(rows) < ROWS:
            return
        before = rows[-1]["id"]


def _cells(flip: dict[str, Any]) -> tuple[str, ...]:
    before, after = flip["before"], flip["after"]
    return (
        *(flip[name] for name in COLUMNS[:10]),
        before["decline_reason"] or "",
        after["decline_reason"] or "",
        json_bytes(before["trace"]).decode(),
        json_bytes(after["trace"]).decode(),
    )


def _csv(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
