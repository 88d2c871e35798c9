"""The servers of a local Ray (its head, ``gcs_server``, and ``raylet``), watched through the kernel.

Without them processes continue and reach each other, but Ray starts no process and reports no death. Ray
itself detects it late: a killed raylet after a quarter of a minute, a killed head after a minute.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol

from actors.cluster.liveness import tick
from actors.cluster.process_state import (
    KernelState,
    child_pids,
    identity_of,
    is_halted,
    kill_process,
)
from engine.limits import RAY_CHECK_SECONDS, STOPPED_CHECKS

RAYLET: Final = "raylet"
"""The parent of the processes that it starts itself, in its main thread."""
COMPLETE_EVERY_CHECKS: Final = 25
"""Number of checks of which one lists the children of all threads of the raylet, about thirty. The others
list those of its main thread."""


class Server(Protocol):
    """A child process (``subprocess.Popen``)."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def kill(self) -> None: ...


class Parent(Protocol):
    """A parent of processes (``ForkServer``)."""

    @property
    def pid(self) -> int | None: ...


class RayServers:
    """Watches the servers that ``find`` returns by name. Call ``learn`` after each start of Ray. Processes of
    Ray can be children of ``fork_server``."""

    def __init__(
        self,
        find: Callable[[], Mapping[str, Server]],
        check_seconds: float = RAY_CHECK_SECONDS,
        fork_server: Parent | None = None,
    ) -> None:
        self._find = find
        self._fork_server = fork_server
        self._check_seconds = check_seconds
        self._servers: dict[str, Server] = {}
        self._states: dict[str, KernelState] = {}
        self._found_halted: dict[str, int] = {}
        self._processes: set[str] = set()
        self._children: list[int] = []
        self._checks = 0
        self.missing = ""
        """The name of the first server that was seen ended or stopped; empty before that."""

    def learn(self) -> None:
        """Watch the servers that run now."""
        self._servers = dict(self._find())
        for state in self._states.values():
            state.close()
        self._states = {name: KernelState(identity_of(server.pid)) for name, server in self._servers.items()}
        self._found_halted = dict.fromkeys(self._servers, 0)
        self._processes, self._children, self._checks = set(), [], 0
        self.missing = ""

    async def lost(self) -> str:
        """Wait until a server has ended or is stopped; returns its name."""
        while True:
            if missing := self.check():
                return missing
            await tick(self._check_seconds)

    def check(self) -> str:
        """Check each server once; returns the name of a lost one, or "". Also notes the processes that Ray
        has started, because the children of an ended raylet cannot be listed any more."""
        for name, server in self._servers.items():
            if server.poll() is not None:
                self.missing = self.missing or name
            halted = self._states[name].is_halted()
            self._found_halted[name] = self._found_halted[name] + 1 if halted else 0
            if self._found_halted[name] >= STOPPED_CHECKS:
                self.missing = self.missing or name
        self._note_processes(complete=self._checks % COMPLETE_EVERY_CHECKS == 0)
        self._checks += 1
        return self.missing

    def _note_processes(self, *, complete: bool) -> None:
        children = self._child_pids(complete=complete)
        if children and children != self._children:
            # Identities are read after a change only: that costs several times as much as the list.
            self._children = children
            earlier = {each for each in self._processes if not is_halted(each)}
            self._processes = earlier | set(filter(None, map(identity_of, children)))

    def _child_pids(self, *, complete: bool) -> list[int]:
        raylet = self._servers.get(RAYLET)
        if raylet is None:
            return []
        children = child_pids(raylet.pid, of_main_thread=not complete)
        fork_server = None if self._fork_server is None else self._fork_server.pid
        if fork_server is not None:
            children += child_pids(fork_server, of_main_thread=not complete)
        return children

    def processes(self) -> set[str]:
        """The identities of all processes that this Ray has started."""
        self.check()
        self._note_processes(complete=True)
        return set(self._processes)

    def kill(self) -> None:
        """Kill the servers; a raylet that ends in order would end its processes too."""
        for name, server in self._servers.items():
            if not kill_process(self._states[name].identity):
                server.kill()
