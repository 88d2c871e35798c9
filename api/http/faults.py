"""Unexpected exceptions become refusals without internal details.

Exception texts of drivers can hold row values. Therefore neither the body nor the log repeats them: the log
names the exception's type and the lines of code.
"""

from __future__ import annotations

import traceback
from typing import Final

import structlog

from actors.database import DatabaseUnavailableError
from actors.sqlstates import UNAVAILABLE
from api.http.problems import Refusal, unavailable

CONNECTION_FAILURES: Final[tuple[type[Exception], ...]] = UNAVAILABLE
"""PostgreSQL's absence, slowness or restart, or a server that is not the primary."""


class NetworkUnavailableError(Exception):
    """The simulated network gave no acceptance; whether it acts on the request is unknown."""


_log = structlog.get_logger("api")


def refusal_of(fault: Exception, request_id: str) -> Refusal:
    """The refusal to answer with; the fault is logged under the request's id."""
    down = isinstance(fault, (*CONNECTION_FAILURES, DatabaseUnavailableError, NetworkUnavailableError))
    _log.error(
        "dependency unavailable" if down else "request failed",
        trace=request_id,
        fault=type(fault).__name__,
        sqlstate=getattr(fault, "sqlstate", None),
        at=_places(fault),
    )
    return unavailable() if down else Refusal("internal-error")


def _places(fault: Exception) -> str:
    """The innermost calls, without their arguments."""
    frames = traceback.extract_tb(fault.__traceback__)[-6:]
    return " < ".join(f"{frame.filename.rpartition('/')[2]}:{frame.lineno}" for frame in reversed(frames))
