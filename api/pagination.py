"""Lists: newest first, by cursor (contract, section 5).

Ids are time-ordered, so the id of a page's last row is the cursor, and a full walk gives each row once
however many are added meanwhile. A cursor must name a row that the caller may see: any other is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import asyncpg
from pydantic import BaseModel, BeforeValidator, Field, create_model
from starlette.responses import Response

from api.auth import Caller
from api.database import connected
from api.fields import GivenInstant, Id, parse_instant
from api.operations import json_response
from api.problems import Refusal
from api.services import Services
from api.validation import Input, broken
from engine.limits import PAGE_LIMIT_DEFAULT, PAGE_LIMIT_MAX


def _limit(text: object) -> int:
    if isinstance(text, str) and text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= PAGE_LIMIT_MAX:
        return int(text)
    raise broken("range", f"The limit is a whole number from 1 to {PAGE_LIMIT_MAX}.")


class PageQuery(Input):
    """The query parameters of every list."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT_MAX), BeforeValidator(_limit)] = PAGE_LIMIT_DEFAULT
    """Rows on a page."""
    starting_after: Id | None = None
    """The `next_cursor` of the page before."""


class WindowQuery(PageQuery):
    """The query parameters of lists that can be narrowed to a window of time, half-open: `[from, to)`."""

    from_: Annotated[GivenInstant | None, Field(alias="from")] = None
    to: GivenInstant | None = None

    @property
    def window(self) -> dict[str, Any]:
        """The conditions on ``created_at``."""
        return {
            "r.created_at >= ?": parse_instant(self.from_) if self.from_ else None,
            "r.created_at < ?": parse_instant(self.to) if self.to else None,
        }


def page_model(name: str, row: type[BaseModel]) -> type[BaseModel]:
    """The model of a page of ``row``, for the description."""
    return create_model(
        name,
        __doc__="A page, newest first.",
        data=(list[row], ...),  # type: ignore[valid-type]
        has_more=(bool, ...),
        next_cursor=(Id | None, ...),
    )


async def page(
    services: Services,
    caller: Caller,
    query: PageQuery,
    *,
    table: str,
    select: str,
    filters: Mapping[str, Any],
    show: Callable[[asyncpg.Record], dict[str, Any]],
    always: str = "true",
) -> Response:
    """One page of ``table``.

    ``select`` ends before its WHERE and names the table's row ``r``; ``filters`` maps conditions with one
    ``?`` each to their values, those of ``None`` being left out; ``always`` is a condition without a value.
    All SQL here is constant: only the choice of conditions varies.
    """
    conditions, values = ["r.tenant_id = $1", "r.live = $2", always], [caller.tenant_id, caller.live]
    given = {"r.id < ?::uuid": query.starting_after, **filters}
    for condition, value in given.items():
        if value is not None:
            values.append(value)
            conditions.append(condition.replace("?", f"${len(values)}"))
    statement = f"{select} WHERE {' AND '.join(conditions)} ORDER BY r.id DESC LIMIT {query.limit + 1}"
    async with connected(services.pool) as connection:
        if query.starting_after is not None:
            await _require_cursor(connection, caller, table, query.starting_after)
        rows = await connection.fetch(statement, *values)
    return page_response([show(row) for row in rows[: query.limit]], has_more=len(rows) > query.limit)


def page_response(data: list[dict[str, Any]], *, has_more: bool) -> Response:
    """A page as it is sent; the cursor is the id of its last row."""
    next_cursor = data[-1]["id"] if has_more else None
    return json_response(200, {"data": data, "has_more": has_more, "next_cursor": next_cursor})


_CURSOR: Final = "SELECT 1 FROM {table} WHERE id = $3::uuid AND tenant_id = $1 AND live = $2"


async def _require_cursor(connection: Any, caller: Caller, table: str, cursor: str) -> None:
    statement = _CURSOR.format(table=table)
    if not await connection.fetchval(statement, caller.tenant_id, caller.live, cursor):
        raise Refusal("invalid-cursor")
