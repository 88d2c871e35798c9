"""What one request takes from its API server: processor time of the event loop, and time of a connection to
PostgreSQL, where a processor works for it too. Waiting for card owners, commits or other servers is no use.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextvars import ContextVar
from time import thread_time
from typing import Any, Final, Generic, TypeVar

import msgspec

T = TypeVar("T")


class Use(msgspec.Struct):
    """The use of one request so far."""

    seconds: float = 0.0


USE: Final[ContextVar[Use | None]] = ContextVar("use", default=None)
"""The use of the current request; ``None`` outside of requests."""


class Measured(Generic[T]):
    """Awaits ``work`` and adds the processor time of its steps to ``use``. Tasks that it starts and work in
    threads are not measured."""

    def __init__(self, work: Coroutine[Any, Any, T], use: Use) -> None:
        self._work = work
        self._use = use

    def __await__(self) -> Generator[Any, Any, T]:
        step: Any = self._work.send
        argument: Any = None
        while True:
            began = thread_time()
            try:
                awaited = step(argument)
            except StopIteration as done:
                result: T = done.value
                return result
            finally:
                self._use.seconds += thread_time() - began
            try:
                argument = yield awaited
                step = self._work.send
            except BaseException as failure:  # noqa: BLE001 - a cancellation too belongs to the work
                argument = failure
                step = self._work.throw
