"""Actors as one writes them first with Ray, for the benchmark's un-batched rival: each call goes through Ray
to one method, and nothing watches over them."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any, Final, Protocol

import ray

from actors.settings import Settings

CALLS_AT_ONCE: Final = 10_000
"""Calls under way in one actor: as many as a process of the installation takes."""


class Answering(Protocol):
    """What an actor is made of; ``start`` comes first."""

    async def start(self) -> None:
        """Serve; returns when it does."""

    async def answer(self, payload: bytes) -> bytes:
        """Answer one call."""


class _Actor:
    """Builds what it is made of by name: the process that runs it is another one than whoever names it."""

    def __init__(self, factory: str, settings: bytes, arguments: tuple[Any, ...]) -> None:
        module, _, attribute = factory.partition(":")
        build = getattr(import_module(module), attribute)
        self._answering: Answering = build(Settings.from_json(settings), *arguments)

    async def start(self) -> int:
        """The process id, once it serves."""
        await self._answering.start()
        return os.getpid()

    async def answer(self, payload: bytes) -> bytes:
        return await self._answering.answer(payload)


class DirectActor:
    """One actor, which ends with the session of its creator. ``start`` it before the first ``call``."""

    def __init__(self, factory: str, settings: Settings, *arguments: Any) -> None:
        """``factory``: ``module:function``, called with the settings and ``arguments``."""
        remote = ray.remote(_Actor).options(num_cpus=0, max_concurrency=CALLS_AT_ONCE)
        self._handle: Any = remote.remote(factory, settings.to_json(), arguments)

    async def start(self) -> int:
        """The actor's process id, once it serves."""
        pid: int = await self._handle.start.remote()
        return pid

    async def call(self, payload: bytes) -> bytes:
        """The answer. Ray's own errors reach the caller."""
        answer: bytes = await self._handle.answer.remote(payload)
        return answer
