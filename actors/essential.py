"""Background tasks that a process cannot do its work without.

A process whose reading, committing or sweeping task has ended still answers pings, keeps its shards and
holds its callers. So the unexpected end of such a task ends the process: the coordinator or Ray then replaces
it, and callers retry on its successor.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, TypeVar

import structlog

T = TypeVar("T")

FAULTY_EXIT: Final = 72
"""Exit status of a process that lost an essential task."""

_log = structlog.get_logger(__name__)


def end_process(name: str, failure: BaseException) -> None:
    """Log the loss of the task ``name`` and exit at once, with ``FAULTY_EXIT``. Tests replace this function
    to observe the loss."""
    try:
        _log.error("essential_task_ended", task=name, error=type(failure).__name__, exc_info=failure)
    finally:
        os._exit(FAULTY_EXIT)


def start_essential(work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
    """Run ``work`` in the running loop. An exception ends the process; a cancellation or a normal return does
    not."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    task.add_done_callback(partial(_check, name))
    return task


def _check(name: str, task: asyncio.Task[Any]) -> None:
    failure = None if task.cancelled() else task.exception()
    # An interrupt of the whole process ends it anyhow.
    if isinstance(failure, Exception):
        end_process(name, failure)
