"""Whether this code may run on its database. During an upgrade two releases share one: this release and the
one before, or the one after.

``stanchion migrate`` without ``--before`` completes an upgrade: it records how many migrations code must know
from then on. Code of an earlier release would misread rows that the newer one has written since.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from actors.primary import CannotConnectError, connect
from actors.sqlstates import STATEMENT_FAILURES
from engine.limits import COMMIT_TIMEOUT_MS

MIGRATIONS: Final = Path(__file__).parents[1] / "ops" / "migrations"
_NAME: Final = re.compile(r"(\d{4})_[a-z0-9_]+(\.after)?\.sql")
_STATE: Final = """
SELECT (SELECT array_agg(version) FROM schema_migrations) AS applied,
       (SELECT max(migrations) FROM schema_floor) AS floor
"""
_HAS_FLOOR: Final = "SELECT to_regclass('schema_floor') IS NOT NULL"
"""No release before this one has completed an upgrade in this way."""


class ReleaseError(Exception):
    """This code must not run on the database. The message is one line without values."""


def known_migrations(folder: Path = MIGRATIONS) -> dict[int, bool]:
    """The migrations that this code knows, by number, and whether each waits for the end of an upgrade."""
    matches = (_NAME.fullmatch(path.name) for path in sorted(folder.glob("*.sql")))
    return {int(match[1]): match[2] is not None for match in matches if match is not None}


async def check_release(dsn: str) -> None:
    """Raise ReleaseError if this code is too old or too new for the database. Does nothing where the database
    does not answer: no code can harm it then."""
    try:
        connection = await connect(dsn, "stanchion-release", COMMIT_TIMEOUT_MS / 1000, {}, command_seconds=10)
    except CannotConnectError:
        return
    try:
        if not await connection.fetchval(_HAS_FLOOR):
            return
        state = await connection.fetchrow(_STATE)
    except STATEMENT_FAILURES:
        return
    finally:
        connection.terminate()
    assert state is not None, "the statement returns one row"
    reason = refusal(known_migrations(), state["applied"] or (), state["floor"] or 0)
    if reason is not None:
        raise ReleaseError(reason)


def refusal(known: dict[int, bool], applied: Collection[int], floor: int) -> str | None:
    """Why code that knows the migrations ``known`` must not run on a database that has ``applied`` and whose
    upgrade to ``floor`` is complete; ``None`` if it may."""
    newest = max(known, default=0)
    if newest < floor:
        return (
            f"this code is of an earlier release: it knows {newest} migrations, and the upgrade of the"
            f" database to {floor} is complete; install the newer release again"
        )
    missing = [number for number, waits in known.items() if not waits and number not in applied]
    if missing:
        return (
            f"the database lacks {len(missing)} migrations of this release: run stanchion migrate --before"
            " with its code"
        )
    return None
