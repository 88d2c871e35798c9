"""Fake Ray processes for tests of supervision: they start, serve, hang and die on demand. No Ray."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from actors.cluster.liveness import ProbePolicy
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings

SHORT_PROBES = ProbePolicy(ping_seconds=0.001, silence_seconds=0.02, check_seconds=0.001)
HOME, OTHER, THIRD = "a" * 56, "b" * 56, "c" * 56
"""Node ids; ``HOME`` is the supervisor's node."""


async def until(condition: Callable[[], bool]) -> None:
    """Wait until ``condition`` holds; the test fails after a minute."""
    async with asyncio.timeout(60):
        while True:
            if condition():
                return
            await asyncio.sleep(0.001)


class FakeProcesses:
    """Launches processes and plays their peers. ``log`` lists all calls in order."""

    def __init__(self) -> None:
        self.pids: dict[str, int] = {}
        self.failing: set[str] = set()
        """Names of processes that run and whose role does not start."""
        self.silent: set[str] = set()
        """Names of processes that leave pings unanswered."""
        self.log: list[str] = []
        self._next_pid = 100

    def launch(
        self, factory: str, settings: Settings, name: str, options: Any, *, restarts: int, niceness: int
    ) -> None:
        self.log.append(f"launch {name}")
        self._start(name)

    async def ping(self, name: str) -> str:
        await until(lambda: name not in self.silent or name not in self.pids)
        pid = await self.ask(name, "ping")
        return f"elsewhere/{pid}/1"

    async def death(self, name: str) -> None:
        await until(lambda: name not in self.pids)
        raise PeerGoneError(name)

    async def ask(self, name: str, method: str) -> Any:
        if name not in self.pids:
            raise PeerGoneError(name)
        if name in self.failing:
            raise PeerFailedError(name)
        if method == "ping":
            return self.pids[name]
        self.log.append(f"{method} {name}")
        return None

    def kill(self, name: str, *, again: bool = False) -> None:
        self.log.append(f"kill {name}")
        self.pids.pop(name, None)
        if again:
            asyncio.get_running_loop().call_later(0.005, self._start, name)

    async def close(self) -> None:
        """Called before Ray is shut down; these processes have no handles."""

    def reopen(self) -> None:
        """Called when Ray has been started again."""

    def _start(self, name: str) -> None:
        self._next_pid += 1
        self.pids[name] = self._next_pid
