"""Lists: newest first, by cursor.

Ids are time-ordered, so the id of a page's last row is the cursor, and a full walk gives each row once
however many are added meanwhile. A cursor must name a row that the caller may see: any other is refused.

The work for a page is bounded. With indexed filters, a page reads the rows that it returns. With the others
it reads at most ``PAGE_SCAN_MAX`` rows and may end before it is full; its cursor is then the last row that it
read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Final, Protocol

import asyncpg
from pydantic import BaseModel, BeforeValidator, Field, create_model
from starlette.responses import Response

from api.access.tokens import Caller
from api.database.pool import Connection, connected
from api.http.answers import json_response
from api.http.fields import Id, InstantInput, parse_instant
from api.http.problems import Refusal
from api.http.validation import Input, View, broken
from api.services import Services
from engine.ids import first_id_at
from engine.instant import to_ms
from engine.limits import (
    PAGE_CLOCK_SLACK_MS,
    PAGE_LIMIT_DEFAULT,
    PAGE_LIMIT_MAX,
    PAGE_MERGE_MAX,
    PAGE_SCAN_MAX,
)

FIRST_ID: Final = "00000000-0000-0000-0000-000000000000"
LAST_ID: Final = "ffffffff-ffff-ffff-ffff-ffffffffffff"


def limit_of(text: object) -> int:
    """The query parameter ``limit``, for validators."""
    if isinstance(text, str) and text.isascii() and text.isdecimal() and 1 <= int(text[:9]) <= PAGE_LIMIT_MAX:
        return int(text)
    raise broken("range", f"The limit is a whole number from 1 to {PAGE_LIMIT_MAX}.")


class PageQuery(Input):
    """The query parameters of every list."""

    limit: Annotated[int, Field(ge=1, le=PAGE_LIMIT_MAX), BeforeValidator(limit_of)] = PAGE_LIMIT_DEFAULT
    """Rows on a page."""
    starting_after: Id | None = None
    """The `next_cursor` of the page before."""

    @property
    def bounds(self) -> Bounds:
        """The ids of the page's rows."""
        return Bounds(FIRST_ID, self.starting_after or LAST_ID)


class Limited(Protocol):
    """A query with a limit of rows."""

    @property
    def limit(self) -> int:
        """Most rows of a page."""


class WindowQuery(PageQuery):
    """The query parameters of lists that can be narrowed to a window of time, half-open: `[from, to)`."""

    from_: Annotated[InstantInput | None, Field(alias="from")] = None
    to: InstantInput | None = None

    @property
    def window(self) -> dict[str, Any]:
        """The conditions on ``created_at``."""
        return {"r.created_at >= ?": self._instant(self.from_), "r.created_at < ?": self._instant(self.to)}

    @property
    def bounds(self) -> Bounds:
        """The ids of the page's rows, which all rows of the window have."""
        around, cursor = list(self.around_window.values()), self.starting_after
        return Bounds(around[0] or FIRST_ID, min(cursor or LAST_ID, around[1] or LAST_ID))

    @property
    def around_window(self) -> dict[str, Any]:
        """Conditions on the id, which has an index, that every row of the window fulfils."""
        begin, end = self._instant(self.from_), self._instant(self.to)
        return {
            "r.id >= ?::uuid": begin and first_id_at(max(0, to_ms(begin) - PAGE_CLOCK_SLACK_MS)),
            "r.id < ?::uuid ": end and first_id_at(to_ms(end) + PAGE_CLOCK_SLACK_MS),
        }

    def _instant(self, given: str | None) -> datetime | None:
        return None if given is None else parse_instant(given)


@dataclass(frozen=True)
class Bounds:
    """Ids of a page: from ``first``, inclusive, to ``before``, exclusive."""

    first: str
    before: str


@dataclass(frozen=True)
class IndexRange:
    """The range of an index that drives a page: its columns before the id, as SQL, with their values.

    The conditions compare whole keys of the index, and the rows are sorted by them. With an equality, and an
    order by the id alone, PostgreSQL may walk the primary key instead, past the rows of all other tenants,
    when it takes the values for frequent.
    """

    columns: tuple[str, ...]
    values: tuple[Any, ...]

    @property
    def order(self) -> str:
        """Newest first, in the order of the index."""
        return ", ".join(f"{column} DESC" for column in (*self.columns, "r.id"))

    def add_to(self, where: Conditions, bounds: Bounds) -> None:
        """Add the conditions on the keys."""
        key = f"({', '.join((*self.columns, 'r.id'))})"
        for comparison, id_ in ((">=", bounds.first), ("<", bounds.before)):
            places = ["$1", "$2"] if self is OF_TENANT else [where.place(value) for value in self.values]
            places.append(f"{where.place(id_)}::uuid")
            where.conditions.append(f"{key} {comparison} ({', '.join(places)})")


@dataclass(frozen=True)
class Keys:
    """The SQL that finds rows by their ids, and the order of a list. Each ``?`` is the same value."""

    order: str = "r.id DESC"
    named: str = "r.id = ANY (?::uuid[])"
    before: str = "r.id < ?::uuid"
    """The rows after a cursor."""


BY_ID: Final = Keys()
_OF_CALLER: Final = ("r.tenant_id = $1", "r.live = $2")
OF_TENANT: Final = IndexRange(("r.tenant_id", "r.live"), ())
"""All rows of the caller, whose tenant and mode are the first two values of every page."""


class Candidates(Protocol):
    """Finds the ids of at most ``limit`` rows within ``bounds``, newest first."""

    def __call__(
        self, connection: Connection, caller: Caller, bounds: Bounds, limit: int, /
    ) -> Awaitable[list[str]]: ...


def first_of(conditions: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first condition that has a value, and the others. One index range serves the first; with two of
    them, no index says how many rows fulfil both."""
    given = {condition: value for condition, value in conditions.items() if value is not None}
    names = list(given)
    return {name: given[name] for name in names[:1]}, {name: given[name] for name in names[1:]}


def page_model(name: str, row: type[BaseModel]) -> type[BaseModel]:
    """The model of a page of ``row``, for the description."""
    return create_model(
        name,
        __base__=View,
        __doc__="A page, newest first. With filters it may hold fewer rows than `limit`, even none, while "
        "`has_more` is true: go on with `next_cursor`.",
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
    scanned: Mapping[str, Any] | None = None,
    candidates: Candidates | None = None,
    joined: bool = False,
    always: str = "true",
    driving: IndexRange | None = None,
    keys: Keys = BY_ID,
) -> Response:
    """One page of ``table``.

    ``select`` ends before its WHERE and names the table's row ``r``. ``filters`` maps indexed conditions,
    with one ``?`` each, to their values; conditions with ``None`` are left out. ``scanned`` are conditions
    without an index. ``joined`` says whether ``select`` joins other tables. ``always`` is a condition without
    a value. ``candidates`` finds the ids of rows for which no single index range exists; ``filters`` is then
    empty. ``driving`` is the range of an index that has all rows of the page. ``keys`` is for a view whose
    index is not on the id. All SQL here is constant: only the choice of conditions varies.
    """
    extra = {condition: value for condition, value in (scanned or {}).items() if value is not None}
    where, order = _conditions_of(caller, query, filters, always, driving, keys)
    async with connected(services.pool) as connection:
        if query.starting_after is not None:
            await _require_cursor(connection, caller, table, keys, query.starting_after)
        last = None
        if candidates is not None or extra:
            if candidates is not None:
                ids, last = await _candidates(connection, caller, query, candidates, filtered=bool(extra))
            else:
                ids, last = await _scan(connection, table, where, extra, query.limit + 1, order)
            if driving is OF_TENANT:
                where.conditions += _OF_CALLER
            where.add({keys.named: ids, **extra})
        condition, most = str(where), query.limit + 1
        if joined and candidates is None and not extra:
            # First the ids of the page: the planner cannot know how many rows the joins of ``select`` keep.
            ids_of_page = f"SELECT r.id FROM {table} r WHERE {where} ORDER BY {order} LIMIT {most}"
            condition = " AND ".join((*_OF_CALLER, f"r.id IN ({ids_of_page})"))
            order = keys.order
        statement = f"{select} WHERE {condition} ORDER BY {order} LIMIT {most}"
        rows = await connection.fetch(statement, *where.values)
    if len(rows) > query.limit or last is None:
        return page_of(query, rows, show)
    return page_response([show(row) for row in rows], has_more=True, cursor=last)


def _conditions_of(
    caller: Caller,
    query: PageQuery,
    filters: Mapping[str, Any],
    always: str,
    driving: IndexRange | None,
    keys: Keys,
) -> tuple[Conditions, str]:
    """The indexed conditions of a page, and its order. The first two values are the caller's."""
    where = Conditions([*_OF_CALLER, always], [caller.tenant_id, caller.live])
    order = keys.order
    if driving is OF_TENANT:
        # With equalities on its first columns, PostgreSQL would not begin at the key in the index.
        where.conditions = [always]
    if driving is None:
        where.add({keys.before: query.starting_after})
    else:
        driving.add_to(where, query.bounds)
        order = driving.order
    where.add(filters)
    return where, order


async def _candidates(
    connection: Connection, caller: Caller, query: PageQuery, find: Candidates, *, filtered: bool
) -> tuple[list[str], str | None]:
    """The ids that ``find`` finds for a page. If further conditions apply to them (``filtered``) and there
    may be more, also the last of them."""
    most = PAGE_MERGE_MAX if filtered else query.limit + 1
    ids = await find(connection, caller, query.bounds, most)
    return ids, ids[-1] if filtered and len(ids) == most else None


async def _scan(
    connection: Connection, table: str, where: Conditions, extra: Mapping[str, Any], most: int, order: str
) -> tuple[list[str], str | None]:
    """The ids of the first ``most`` rows that fulfil ``where`` and ``extra``, among those that a page looks
    at. If there are fewer, also the id of the last row that it has looked at, unless it was the last of
    all."""
    looked_at = f"SELECT * FROM {table} r WHERE {where} ORDER BY {order} LIMIT {PAGE_SCAN_MAX}"
    both = Conditions([], [*where.values])
    both.add(extra)
    statement = f"SELECT r.id::text FROM ({looked_at}) r WHERE {both} ORDER BY r.id DESC LIMIT {most}"
    ids = [row["id"] for row in await connection.fetch(statement, *both.values)]
    if len(ids) == most:
        return ids, None
    end = f"ORDER BY {order} OFFSET {PAGE_SCAN_MAX - 1} LIMIT 1"
    last: str | None = await connection.fetchval(
        f"SELECT r.id::text FROM {table} r WHERE {where} {end}", *where.values
    )
    return ids, last


@dataclass
class Conditions:
    """Conditions of a WHERE with their values."""

    conditions: list[str]
    values: list[Any]

    def add(self, given: Mapping[str, Any]) -> None:
        """Add conditions with one ``?`` each, except those whose value is ``None``."""
        for condition, value in given.items():
            if value is not None:
                self.values.append(value)
                self.conditions.append(condition.replace("?", f"${len(self.values)}"))

    def place(self, value: Any) -> str:
        """Add a value; returns its placeholder."""
        self.values.append(value)
        return f"${len(self.values)}"

    def __str__(self) -> str:
        return " AND ".join(self.conditions)


def page_of(
    query: Limited,
    rows: Sequence[asyncpg.Record],
    show: Callable[[asyncpg.Record], dict[str, Any]],
    *,
    cursor: str = "id",
    **members: Any,
) -> Response:
    """The page of ``rows``, of which at most one more than the limit was read. ``cursor`` is the column that
    the next page begins after; ``members`` are further members of the page."""
    data, has_more = [show(row) for row in rows[: query.limit]], len(rows) > query.limit
    after = rows[query.limit - 1][cursor] if has_more else None
    return page_response(data, has_more=has_more, cursor=after, **members)


def page_response(
    data: list[dict[str, Any]], *, has_more: bool = False, cursor: Any = None, **members: Any
) -> Response:
    """A page as it is sent; the cursor is that of its last row."""
    return json_response(200, {"data": data, "has_more": has_more, "next_cursor": cursor, **members})


_CURSOR: Final = "SELECT 1 FROM {table} r WHERE {named} AND r.tenant_id = $1 AND r.live = $2"


async def _require_cursor(connection: Any, caller: Caller, table: str, keys: Keys, cursor: str) -> None:
    statement = _CURSOR.format(table=table, named=keys.named.replace("?", "$3"))
    if not await connection.fetchval(statement, caller.tenant_id, caller.live, [cursor]):
        raise Refusal("invalid-cursor")
