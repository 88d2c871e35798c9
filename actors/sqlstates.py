"""Verdicts on the errors of PostgreSQL: are the rows of the statement at fault, or the server?

An error that PostgreSQL reports rolls the statement back. Its SQLSTATE alone decides whether the same rows
can succeed later. ``CLASSES`` has a verdict for each class (the first two characters), ``CODES`` for the
codes that differ from their class:

- ``BATCH``: the rows are at fault and the connection is good. The caller commits the commands again
  in halves, until it has found the faulty command.
- ``SCHEMA``: functions, tables or rights differ from those expected, perhaps for some rows only. Handled like
  ``BATCH``, on a new connection: the old one may lead to the wrong server, or date from before a migration.
- ``SERVER``: the server is not the primary, is shutting down, or has no resources; or a lock or another
  transaction was in the way. The outcome is unknown: the caller connects anew and looks the commands up in
  the journal.

Classes that are not listed belong to extensions. Their verdict is ``BATCH``: one faulty command must not stop
the others.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import asyncpg


class Verdict(Enum):
    """The consequence of an error; the docstring of this module explains them."""

    BATCH = "batch"
    SCHEMA = "schema"
    SERVER = "server"


_BATCH, _SCHEMA, _SERVER = Verdict.BATCH, Verdict.SCHEMA, Verdict.SERVER

CLASSES: Final[dict[str, tuple[Verdict, str]]] = {
    "03": (_SERVER, "SQL statement not yet complete: the state of the session is unknown"),
    "08": (_SERVER, "connection exceptions"),
    "09": (_SCHEMA, "triggered action exceptions"),
    "0A": (_SERVER, "cached plan with another result type: planned again on a new connection"),
    "0B": (_SERVER, "invalid transaction initiation: the state of the session is unknown"),
    "0F": (_SCHEMA, "locator exceptions: no statement uses locators"),
    "0L": (_SCHEMA, "invalid grantor"),
    "0P": (_SCHEMA, "invalid role"),
    "0Z": (_SCHEMA, "diagnostics exceptions"),
    "10": (_BATCH, "XQuery errors"),
    "20": (_SCHEMA, "CASE without a matching branch"),
    "21": (_BATCH, "two rows of one statement change the same row"),
    "22": (_BATCH, "values out of range, malformed, or null in a column that is not nullable"),
    "23": (_BATCH, "constraint violations"),
    "24": (_SERVER, "invalid cursor state: the state of the session is unknown"),
    "25": (_SERVER, "transaction states: read-only (not the primary), aborted, timed out"),
    "26": (_SERVER, "unknown prepared statement: another backend answers"),
    "27": (_BATCH, "a trigger has changed the row already"),
    "28": (_SERVER, "invalid authorization: credentials may be rotating"),
    "2B": (_SCHEMA, "privileges with dependent privileges"),
    "2D": (_SERVER, "invalid transaction termination: the state of the session is unknown"),
    "2F": (_SCHEMA, "SQL routine exceptions"),
    "34": (_SERVER, "invalid cursor name: the state of the session is unknown"),
    "38": (_SCHEMA, "external routine exceptions"),
    "39": (_SCHEMA, "external routine invocation exceptions"),
    "3B": (_SERVER, "savepoint exceptions: the state of the session is unknown"),
    "3D": (_SERVER, "unknown database: it is being restored, or another server answers"),
    "3F": (_SCHEMA, "unknown schema"),
    "40": (_SERVER, "serialization failures and deadlocks"),
    "42": (_SCHEMA, "syntax errors, unknown names, missing rights"),
    "44": (_BATCH, "WITH CHECK OPTION violations"),
    "53": (_SERVER, "insufficient resources: disk, memory, connections"),
    "54": (_BATCH, "program limits: values too large for an index, statements too complex"),
    "55": (_SERVER, "object in use, or lock not acquired in time"),
    "57": (_SERVER, "operator intervention: cancelled, shutting down, starting, crashed"),
    "58": (_SERVER, "system errors: input and output"),
    "72": (_SERVER, "snapshot too old"),
    "F0": (_SERVER, "configuration file errors"),
    "HV": (_SCHEMA, "foreign data wrapper errors"),
    "P0": (_BATCH, "raised by a function or trigger because of its rows"),
    "XX": (_BATCH, "internal errors, including damaged pages: other rows can still be written"),
}

CODES: Final[dict[str, tuple[Verdict, str]]] = {
    "40002": (_BATCH, "constraint violations at the end of the transaction"),
}

_DRIVER_FAILURES: Final[tuple[type[Exception], ...]] = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    # The driver's own state is broken. Seen when the server ends a connection while a statement begins, and
    # when no server of the DSN accepts writes.
    asyncpg.InternalClientError,
)
"""Failures without an answer of the server."""
STATEMENT_FAILURES: Final[tuple[type[Exception], ...]] = (*_DRIVER_FAILURES, asyncpg.PostgresError)
"""All exceptions of a failed connection or statement, for ``except``."""


def _server_errors() -> tuple[type[Exception], ...]:
    known = [each for each in vars(asyncpg.exceptions).values() if isinstance(each, type)]
    codes = {
        each: getattr(each, "sqlstate", None) for each in known if issubclass(each, asyncpg.PostgresError)
    }
    return tuple(each for each, code in codes.items() if code and verdict(code) is Verdict.SERVER)


def verdict(sqlstate: str | None) -> Verdict:
    """The verdict on an error. An error without SQLSTATE does not come from the server."""
    if sqlstate is None:
        return Verdict.SERVER
    found = CODES.get(sqlstate) or CLASSES.get(sqlstate[:2])
    return found[0] if found else Verdict.BATCH


def unavailable(failure: BaseException) -> bool:
    """Whether the server was away, slow or in the wrong state: the rows of the statement are not at fault."""
    if isinstance(failure, asyncpg.PostgresError):
        return verdict(failure.sqlstate) is Verdict.SERVER
    return isinstance(failure, _DRIVER_FAILURES)


def keeps_connection(failure: BaseException) -> bool:
    """Whether the next statement may use the same connection."""
    return isinstance(failure, asyncpg.PostgresError) and verdict(failure.sqlstate) is Verdict.BATCH


UNAVAILABLE: Final[tuple[type[Exception], ...]] = (*_DRIVER_FAILURES, *_server_errors())
"""The exceptions of which ``unavailable`` is true, for ``except``."""
