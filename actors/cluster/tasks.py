"""``actors.tasks.Tasks`` over Ray.

Each task has a worker process of its own, which ends with it: Ray would otherwise give the process, with its
low priority, to a shard host. Ray never repeats a task; its caller knows what has been done.
"""

from __future__ import annotations

import asyncio
import gc
import os
import time
from functools import cache
from typing import Any, Final

import ray
import structlog
from ray.exceptions import RayError, RayTaskError

from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.title import PREFIX, set_title
from actors.log import configure
from actors.niceness import apply_niceness, take_own_share
from actors.settings import Settings
from actors.tasks import TaskFailedError, task_function
from engine.limits import BACKTEST_NICENESS

NAME: Final = "task"
COLLECT_AFTER_OBJECTS: Final = 200_000
"""Surplus of container allocations over deallocations that starts a garbage collection."""
SHARE_OF_PROCESSORS: Final = 2
"""Tasks may use one processor in so many; decisions and the database need the others."""

_log = structlog.get_logger(__name__)


class RayTasks:
    """Runs tasks on the nodes of the installation."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings.to_json()

    async def slots(self) -> int:
        try:
            resources = await in_daemon_thread(ray.cluster_resources)
        except (RayError, RuntimeError, TimeoutError):
            return 1
        return max(1, int(resources.get("CPU", 1)) // SHARE_OF_PROCESSORS)

    async def run(self, function: str, payload: bytes) -> bytes:
        try:
            reference = _remote_function().remote(function, self._settings, payload)
        except Exception as failure:  # noqa: BLE001 - Ray raises plain ones while it is started again
            raise TaskFailedError(type(failure).__name__) from None
        try:
            result: bytes = await reference
        except asyncio.CancelledError:
            ray.cancel(reference, force=True)
            raise
        except RayTaskError as failure:
            # The text is a traceback that can contain values.
            raise TaskFailedError(type(failure.cause).__name__) from None
        except RayError as failure:
            raise TaskFailedError(type(failure).__name__) from None
        return result


def run_task(function: str, settings: bytes, payload: bytes) -> bytes:
    """Run a task in this process, which runs nothing else."""
    set_title(PREFIX + NAME)
    take_own_share()
    apply_niceness(BACKTEST_NICENESS)
    own = Settings.from_json(settings)
    configure(own.var_dir, own.log_level, NAME)
    _log.info("task_started", function=function, pid=os.getpid(), niceness=os.nice(0))
    # Loaded objects stay, and histories have few cycles.
    gc.freeze()
    gc.set_threshold(COLLECT_AFTER_OBJECTS)

    async def work() -> bytes:
        return await task_function(function)(own, payload)

    try:
        return asyncio.run(work())
    finally:
        _log.info("task_ended", function=function, cpu_seconds=round(time.process_time(), 3))


@cache
def _remote_function() -> Any:
    """Created once: Ray pickles each new one."""
    return ray.remote(num_cpus=1, max_calls=1, max_retries=0, scheduling_strategy="SPREAD")(run_task)
