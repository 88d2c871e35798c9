"""A plain Ray actor for the benchmark's unbatched rival: each call goes through Ray to one method, without
supervision."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final, Protocol

import ray

from actors.settings import Settings

CALLS_AT_ONCE: Final = 10_000
"""Concurrent calls of one actor: as many as a process of the installation accepts."""


class ActorService(Protocol):
    """The object inside an actor; ``start`` comes first."""

    async def start(self) -> None:
        """Start serving; returns when the service is ready."""

    async def answer(self, payload: bytes) -> bytes:
        """Answer one call."""


class _Actor:
    """Builds its service by name, inside the actor's process."""

    def __init__(self, factory: str, settings: bytes, arguments: tuple[Any, ...]) -> None:
        module, _, attribute = factory.partition(":")
        build = getattr(import_module(module), attribute)
        self._service: ActorService = build(Settings.from_json(settings), *arguments)

    async def start(self) -> int:
        """Start the service; returns the process id."""
        await self._service.start()
        return os.getpid()

    async def answer(self, payload: bytes) -> bytes:
        return await self._service.answer(payload)


class UnbatchedActor:
    """One actor, which ends with the Ray session of its creator. Call ``start`` before the first ``call``."""

    def __init__(self, factory: str, settings: Settings, *arguments: Any) -> None:
        """``factory``: ``module:function``, called with the settings and ``arguments``."""
        remote = ray.remote(_Actor).options(num_cpus=0, max_concurrency=CALLS_AT_ONCE)
        self._handle: Any = remote.remote(factory, settings.to_json(), arguments)

    async def start(self) -> int:
        """Start the service; returns the actor's process id."""
        pid: int = await self._handle.start.remote()
        return pid

    async def call(self, payload: bytes) -> bytes:
        """Return the answer. Raises Ray's own errors."""
        answer: bytes = await self._handle.answer.remote(payload)
        return answer
