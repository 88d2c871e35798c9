"""Tasks: functions that run once, in a process of their own and at a low priority.

A task is named as text (``module:function``), because another process imports and runs it.
``actors.cluster.tasks`` runs tasks on the nodes of the installation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import import_module
from typing import Protocol

from actors.settings import Settings

TaskFunction = Callable[[Settings, bytes], Awaitable[bytes]]


class TaskFailedError(Exception):
    """The task ended without a result: it raised, or its process has died. The message is one line without
    values."""


class Tasks(Protocol):
    """Runs tasks."""

    async def slots(self) -> int:
        """The number of tasks that may run at once, at least 1."""

    async def run(self, function: str, payload: bytes) -> bytes:
        """Run a task and return its result. Cancelling this call ends the task. Raises TaskFailedError."""


def task_function(name: str) -> TaskFunction:
    """The function of ``module:function``."""
    module, _, attribute = name.partition(":")
    function: TaskFunction = getattr(import_module(module), attribute)
    return function


class LocalTasks:
    """``Tasks`` in the event loop of the caller, one at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def slots(self) -> int:
        return 1

    async def run(self, function: str, payload: bytes) -> bytes:
        try:
            return await task_function(function)(self._settings, payload)
        except Exception as failure:
            raise TaskFailedError(type(failure).__name__) from failure
