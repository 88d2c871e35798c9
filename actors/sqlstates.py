"""Which errors of PostgreSQL are the statement's own fault, and which say that another connection is needed.

An error that PostgreSQL reports rolls the statement back. Whether the same rows can succeed later depends on
its SQLSTATE alone; ``CLASSES`` judges each class (its first two characters) and ``CODES`` single codes that
differ from their class. Three verdicts:

- ``BATCH``: the rows are at fault. The connection is good; the caller commits the commands one by one to find
  the faulty one.
- ``SCHEMA``: functions, tables or rights are not as expected, perhaps for some rows only. Judged like
  ``BATCH``, on a new connection: it may have been made to the wrong server, or before a migration.
- ``SERVER``: no rows are at fault: not the primary, going away, out of resources, or in each other's way. The
  outcome counts as unknown; the caller connects anew and asks the journal what happened.

A class that is not listed belongs to an extension and is judged ``BATCH``: one faulty command must not stop
the others.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import asyncpg


class Verdict(Enum):
    """See the module."""

    BATCH = "batch"
    SCHEMA = "schema"
    SERVER = "server"


_BATCH, _SCHEMA, _SERVER = Verdict.BATCH, Verdict.SCHEMA, Verdict.SERVER

CLASSES: Final[dict[str, tuple[Verdict, str]]] = {
    "03": (_SERVER, "a statement that has not completed: the state of the session is unknown"),
    "08": (_SERVER, "connection exceptions"),
    "09": (_SCHEMA, "a trigger that fails by itself"),
    "0A": (_SERVER, "a cached plan whose result changed: planned again on a new connection"),
    "0B": (_SERVER, "a transaction that cannot begin: the state of the session is unknown"),
    "0F": (_SCHEMA, "locators, which no statement here uses"),
    "0L": (_SCHEMA, "rights that cannot be granted"),
    "0P": (_SCHEMA, "a role that does not exist"),
    "0Z": (_SCHEMA, "diagnostics outside of a handler"),
    "10": (_BATCH, "XQuery values"),
    "20": (_SCHEMA, "a CASE without a branch in a function"),
    "21": (_BATCH, "rows that touch one row twice in one statement"),
    "22": (_BATCH, "values out of range, of the wrong form, or null where none may be"),
    "23": (_BATCH, "values that break a constraint"),
    "24": (_SERVER, "cursors: the state of the session is unknown"),
    "25": (_SERVER, "transaction states: read-only (not the primary), aborted, timed out"),
    "26": (_SERVER, "a prepared statement that the server does not have: another backend answers"),
    "27": (_BATCH, "a row that a trigger has changed already"),
    "28": (_SERVER, "credentials that do not fit at this moment"),
    "2B": (_SCHEMA, "rights that others depend on"),
    "2D": (_SERVER, "a COMMIT where none is possible: the state of the session is unknown"),
    "2F": (_SCHEMA, "an SQL function that does what it may not"),
    "34": (_SERVER, "cursors: the state of the session is unknown"),
    "38": (_SCHEMA, "a function in another language"),
    "39": (_SCHEMA, "a function in another language"),
    "3B": (_SERVER, "savepoints: the state of the session is unknown"),
    "3D": (_SERVER, "the database is not there: being restored, or another server answers"),
    "3F": (_SCHEMA, "the schema is not there"),
    "40": (_SERVER, "serialization failures and deadlocks: another transaction was first"),
    "42": (_SCHEMA, "names, types and rights that do not exist as the statement has them"),
    "44": (_BATCH, "values that a view refuses"),
    "53": (_SERVER, "disk, memory or connections used up"),
    "54": (_BATCH, "values too large for an index, or statements too complex"),
    "55": (_SERVER, "an object in use, or a lock that was not given in time"),
    "57": (_SERVER, "cancelled, shut down, starting, or crashed"),
    "58": (_SERVER, "input and output errors outside of PostgreSQL"),
    "72": (_SERVER, "a snapshot that is too old"),
    "F0": (_SERVER, "the server's configuration"),
    "HV": (_SCHEMA, "foreign data wrappers"),
    "P0": (_BATCH, "raised by a function or a trigger about the rows it was given"),
    "XX": (_BATCH, "internal errors, damaged pages among them: rows elsewhere can still be written"),
}

CODES: Final[dict[str, tuple[Verdict, str]]] = {
    "40002": (_BATCH, "values that break a constraint at the end of the transaction"),
}

_FAILURES: Final[tuple[type[Exception], ...]] = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    # The driver's own state is broken: seen when the server ends a connection just as a statement begins, and
    # when no server of the DSN accepts writes.
    asyncpg.InternalClientError,
)


def _server_errors() -> tuple[type[Exception], ...]:
    known = [each for each in vars(asyncpg.exceptions).values() if isinstance(each, type)]
    codes = {
        each: getattr(each, "sqlstate", None) for each in known if issubclass(each, asyncpg.PostgresError)
    }
    return tuple(each for each, code in codes.items() if code and verdict(code) is Verdict.SERVER)


def verdict(sqlstate: str | None) -> Verdict:
    """What an error with this SQLSTATE says; one without has not come from the server."""
    if sqlstate is None:
        return Verdict.SERVER
    found = CODES.get(sqlstate) or CLASSES.get(sqlstate[:2])
    return found[0] if found else Verdict.BATCH


def unavailable(failure: BaseException) -> bool:
    """Whether ``failure`` is the server's absence, slowness or state, and no fault of the statement's
    rows."""
    if isinstance(failure, asyncpg.PostgresError):
        return verdict(failure.sqlstate) is Verdict.SERVER
    return isinstance(failure, _FAILURES)


def keeps_connection(failure: BaseException) -> bool:
    """Whether the next statement may use the same connection."""
    return isinstance(failure, asyncpg.PostgresError) and verdict(failure.sqlstate) is Verdict.BATCH


UNAVAILABLE: Final[tuple[type[Exception], ...]] = (*_FAILURES, *_server_errors())
"""The exceptions of ``unavailable``, for ``except``."""
