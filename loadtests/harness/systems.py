"""The systems that are measured, by the names that reports show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from loadtests.harness.children import Helper

OURS: Final = "stanchion"
ROW_LOCKS: Final = "row locks"
CALLS: Final = "PL/pgSQL calls"
BATCHES: Final = "PL/pgSQL batches"
REDIS: Final = "Redis script"
ACTORS: Final = "actor calls"
WEB: Final = "row locks, FastAPI"
"""The processes of ``ROW_LOCKS``, called over HTTP."""

RIVALS: Final = (ROW_LOCKS, CALLS, BATCHES, REDIS, ACTORS)
KINDS: Final[Mapping[str, str]] = {
    ROW_LOCKS: "row_locks",
    CALLS: "calls",
    BATCHES: "batched_calls",
    REDIS: "redis",
    ACTORS: "actors",
}
"""Their names in ``ops.bench``."""


class System(msgspec.Struct, frozen=True):
    """A system under load: the process trees that are its servers, and its metrics page if it has one."""

    name: str
    roots: tuple[int, ...]
    labels: Mapping[int, str]
    without: frozenset[int] = frozenset()
    """Processes in those trees that are another system's."""
    beside: tuple[int, ...] = ()
    """Processes of the measuring equipment: they count neither as servers nor as other load."""
    metrics_url: str | None = None
    log: Helper | None = None
    """The helper that reports the bytes in the server's log; ``None`` for PostgreSQL, where the client inside
    the installation reports them."""
