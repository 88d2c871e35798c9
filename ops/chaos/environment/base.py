"""What all environments of drills and faults have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from typing import Self


class Environment(ABC):
    """Servers and load that exist inside an ``async with`` block. A set-up that fails is taken down too."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        """What ``_set_up`` has started; taken down in the opposite order."""

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._stack.aclose()

    @abstractmethod
    async def _set_up(self) -> None:
        """Start everything."""
