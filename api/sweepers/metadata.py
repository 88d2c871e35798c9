"""Deletes reserved metadata of objects that were never created, because the request was interrupted.

Every API server sweeps; the statements have the same effect however often they run.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from actors.periodic import PeriodicTask
from api.database.pool import transaction
from api.services import Services
from engine.instant import to_datetime
from engine.limits import METADATA_RESERVED_SECONDS, METADATA_SWEEP_SECONDS

_DELETE: Final = """
    DELETE FROM object_metadata o WHERE reserved_at <= $1
        AND NOT EXISTS (SELECT FROM cards WHERE id = o.object_id)
        AND NOT EXISTS (SELECT FROM programmes WHERE id = o.object_id)
"""
_CONFIRM: Final = "UPDATE object_metadata SET reserved_at = NULL WHERE reserved_at <= $1"


def metadata_sweeper(services: Services) -> PeriodicTask:
    """Sweeps periodically. A failed sweep is logged and the next one tries again."""
    return PeriodicTask(
        "metadata-sweeper",
        partial(sweep, services),
        METADATA_SWEEP_SECONDS,
        delay=METADATA_SWEEP_SECONDS,
        tolerated=(Exception,),
    )


async def sweep(services: Services) -> None:
    """Delete the rows of objects that do not exist, and confirm the others."""
    due = to_datetime(services.clock.now_ms() - METADATA_RESERVED_SECONDS * 1000)
    async with transaction(services.pool) as connection:
        await connection.execute(_DELETE, due)
        await connection.execute(_CONFIRM, due)
