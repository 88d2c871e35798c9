"""Documents that are generated on the first request for them: at the start of a server they would cost two
thirds of a second. A thread generates them: on a slow machine, a loop that is blocked for so long would count
as frozen.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import cache
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Generated(Generic[T]):
    """A document that ``generate`` returns, once."""

    def __init__(self, generate: Callable[[], T]) -> None:
        self._generate = cache(generate)
        self._generating = Lock()

    def get(self) -> T:
        """The document; blocks the first caller while it is generated."""
        with self._generating:
            return self._generate()

    async def get_in_thread(self) -> T:
        """The document; the loop goes on while it is generated."""
        return await asyncio.to_thread(self.get)
