"""The states of links. A link serves all tenants of the installation, so its figures are those of all, and
only operators sign it off and on (`stanchion links`)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from starlette.responses import Response

from api.database.pool import connected
from api.http.fields import Instant, example, shown_instant
from api.http.validation import View
from api.operations.call import ReadCall
from api.operations.pagination import page_response
from api.operations.route import new_router
from engine.instant import to_text
from engine.limits import LINK_REPORT_FRESH_SECONDS
from engine.scopes import Mode

router = new_router("Links")

_SELECT: Final = f"""
    SELECT name, edge, live, status::text, reported_at FROM link_reports
    WHERE live = $1 AND reported_at > now() - interval '{LINK_REPORT_FRESH_SECONDS} seconds'
    ORDER BY name, edge
"""
_SHOWN: Final = (
    "direction",
    "tls",
    "state",
    "connections",
    "connections_wanted",
    "signed_on",
    "sign_on",
    "in_flight",
    "refused",
    "last_error",
)


class LinkView(View):
    """A link at one edge."""

    name: Annotated[str, example("processor")]
    edge: Annotated[str, example("edge")]
    """The edge process."""
    mode: Mode
    direction: Literal["listen", "connect"]
    tls: bool
    state: Literal["up", "down", "draining", "signed_off"]
    connections: int
    """Open connections."""
    connections_wanted: int | None
    """Connections that the edge keeps; `null` for a link that listens."""
    signed_on: int
    """Connections on which one side has signed on."""
    sign_on: Literal["required", "optional", "none"]
    in_flight: int
    """Messages without an answer yet."""
    answers_per_minute: Annotated[dict[str, int], example({"0110 00": 12, "0110 51": 1})]
    """Answers of the last minute by MTI and response code."""
    refused: Annotated[dict[str, int], example({"iin": 2})]
    """Refused messages and connections by reason, since the edge started."""
    last_error: str | None
    last_error_at: Instant | None
    reported_at: Instant
    """When the edge reported this."""


class LinksView(View):
    """All links of the caller's mode."""

    data: list[LinkView]
    has_more: Literal[False]
    next_cursor: None


@router.get("/v1/links", response_model=LinksView)
async def list_links(call: ReadCall) -> Response:
    """List the links to networks and processors, each at every edge.

    The links of the caller's mode, with their figures for all tenants of the installation. Edges report every
    five seconds; reports that are older than 30 seconds are left out. The list is short and comes whole.
    """
    async with connected(call.services.pool) as connection:
        rows = await connection.fetch(_SELECT, call.caller.live)
    return page_response([_show(row) for row in rows])


def _show(row: asyncpg.Record) -> dict[str, Any]:
    status: dict[str, Any] = msgspec.json.decode(row["status"])
    return {
        "name": row["name"],
        "edge": row["edge"],
        "mode": "live" if row["live"] else "test",
        **{name: status[name] for name in _SHOWN},
        "answers_per_minute": status["per_minute"],
        "last_error_at": to_text(status["last_error_ms"]) if status["last_error"] else None,
        "reported_at": shown_instant(row["reported_at"]),
    }
