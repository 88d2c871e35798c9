"""Reads ahead of the work on what was read before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, Self, TypeVar

Read = TypeVar("Read")


class ReadAhead(Generic[Read]):
    """An async context manager for one read that goes on while its caller works. Its end cancels the read."""

    def __init__(self) -> None:
        self._reading: asyncio.Task[Read] | None = None

    async def begin(self, read: Coroutine[Any, Any, Read]) -> None:
        """Begin the next read: its request is sent, and the server works on it."""
        self._reading = asyncio.create_task(read)
        await asyncio.sleep(0)

    async def take(self) -> Read:
        """The result of the read that was begun."""
        assert self._reading is not None, "a read was begun"
        reading, self._reading = self._reading, None
        return await reading

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_exception: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
