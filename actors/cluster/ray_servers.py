"""The servers of a local Ray (its head, ``gcs_server``, and ``raylet``), seen through the kernel.

Without them processes go on and reach each other, but Ray starts none, and tells of no death. It does not say
so itself: a killed raylet stays unnoticed for a quarter of a minute, a killed head for a whole one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from actors.cluster.standstill import children, end, of, stands_still
from engine.limits import RAY_LOOK_SECONDS, STANDSTILL_LOOKS

RAYLET: Final = "raylet"
"""The parent of all processes that Ray starts."""


class Server(Protocol):
    """A process that was started from here (``subprocess.Popen``)."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def kill(self) -> None: ...


class RayServers:
    """Watches the servers that ``find`` returns by name. ``learn`` begins a new life of them."""

    def __init__(
        self, find: Callable[[], Mapping[str, Server]], look_seconds: float = RAY_LOOK_SECONDS
    ) -> None:
        self._find = find
        self._look_seconds = look_seconds
        self._servers: dict[str, Server] = {}
        self._where: dict[str, str] = {}
        self._looks: dict[str, int] = {}
        self._processes: set[str] = set()
        self.missing = ""
        """The server that was found ended or stopped."""

    def learn(self) -> None:
        """Watch the servers of now."""
        self._servers = dict(self._find())
        self._where = {name: of(server.pid) for name, server in self._servers.items()}
        self._looks = dict.fromkeys(self._servers, 0)
        self._processes = set()
        self.missing = ""

    async def lost(self) -> str:
        """Returns the name of the first server that has ended or stands still."""
        while True:
            if missing := self.look():
                return missing
            await asyncio.sleep(self._look_seconds)

    def look(self) -> str:
        """One look at each server; the name of a lost one, or "". Also notes which processes Ray has started:
        those of a raylet that has ended cannot be told any more."""
        for name, server in self._servers.items():
            if server.poll() is not None:
                self.missing = self.missing or name
            still = stands_still(self._where[name])
            self._looks[name] = self._looks[name] + 1 if still else 0
            if self._looks[name] >= STANDSTILL_LOOKS:
                self.missing = self.missing or name
        if RAYLET in self._servers and (found := children(self._servers[RAYLET].pid)):
            earlier = {where for where in self._processes if not stands_still(where)}
            self._processes = earlier | set(found)
        return self.missing

    def processes(self) -> set[str]:
        """The ``whereabouts`` of every process that this Ray has started."""
        self.look()
        return set(self._processes)

    def kill(self) -> None:
        """End the servers at once: a raylet that ends in order ends its processes too."""
        for name, server in self._servers.items():
            if not end(self._where[name]):
                server.kill()
