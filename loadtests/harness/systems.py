"""The systems that are measured, by the names that reports show."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from loadtests.harness.children import Helper

OURS: Final = "stanchion"
ROW_LOCKS: Final = "row locks"
BATCHES: Final = "PL/pgSQL batches"
REDIS: Final = "Redis script"

RIVALS: Final = (ROW_LOCKS, BATCHES, REDIS)
KINDS: Final[Mapping[str, str]] = {
    ROW_LOCKS: "row_locks",
    BATCHES: "batches",
    REDIS: "redis",
}
"""Their names in ``ops.bench``."""


class System(msgspec.Struct, frozen=True):
    """A system under load: the process trees that are its servers, and its metrics page if it has one."""

    name: str
    roots: tuple[int, ...]
    labels: Mapping[int, str]
    equipment: tuple[int, ...] = ()
    """Processes of the measuring equipment: they count neither as servers nor as other load."""
    metrics_url: str | None = None
    log: Helper | None = None
    """The helper that reports the bytes in the server's log (``ops.bench.meter``, or a process of the rival
    in Redis); ``None`` if the database cannot be reached."""
    database: str | None = None
    """The database whose tables ``log`` measures: empty for the installation's own, ``None`` without
    tables."""
