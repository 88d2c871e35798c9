"""A local Ray node without the helper processes that Stanchion does not use.

``ray.init`` also starts an autoscaler, a log monitor that would copy logs to a terminal, and an API server,
for which it waits even without a dashboard. The node then starts two agents, Python programs that import for
a second and keep a tenth of the installation's memory, and no process before they have written down their
ports. Stanchion needs none of them, and Ray has no public option to leave them out. This is therefore the
only module that uses Ray's internals for starting a node (``ray._private``). A version of Ray with other
internals fails at its first start, in every test.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final

from ray._private import node as ray_node
from ray._private import services as ray_services
from ray._private import worker as ray_worker
from ray._private.parameter import RayParams
from ray._raylet import (  # type: ignore[attr-defined]
    DASHBOARD_AGENT_LISTEN_PORT_NAME,
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    persist_port,
)

from actors.cluster.fork_server_process import ForkServer

NOT_IN_USE: Final = -1
"""The port that the dashboard agent writes down for each of its services when Ray has no dashboard."""
DASHBOARD_PORTS: Final = (METRICS_AGENT_PORT_NAME, METRICS_EXPORT_PORT_NAME, DASHBOARD_AGENT_LISTEN_PORT_NAME)
AGENTS: Final = ("--dashboard_agent_command=", "--runtime_env_agent_command=")
"""The raylet's options for its agents."""
NO_AGENT: Final = """/bin/sh -c 'trap "" INT; cat'"""
"""A process in place of an agent. The raylet ends with its agents, and they with it: it keeps a pipe to
each. A Ctrl-C at the terminal is for the supervisor."""


def servers() -> dict[str, subprocess.Popen[bytes]]:
    """The servers, by name, of the Ray that this process has started; empty without such a Ray."""
    node: Any = ray_worker._global_node
    if node is None:
        return {}
    return {name: running[0].process for name, running in node.all_processes.items() if running}


@contextmanager
def without_helpers(fork_server: ForkServer | None) -> Iterator[None]:
    """Within this context, ``ray.init`` starts a ``LocalNode``, which uses ``fork_server``."""
    ordinary = ray_node.Node
    LocalNode.fork_server = fork_server
    ray_node.Node = LocalNode  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        ray_node.Node = ordinary  # type: ignore[misc]


class LocalNode(ray_node.Node):
    """A node with Ray's two servers and no other process to wait for."""

    fork_server: ClassVar[ForkServer | None] = None

    def __init__(self, ray_params: RayParams, **options: Any) -> None:
        ray_params.no_monitor = True
        ray_params.include_log_monitor = False  # type: ignore[assignment]
        self._kept_free = _reserved_port()
        if self._kept_free is not None:
            ray_params.runtime_env_agent_port = self._kept_free.getsockname()[1]
        super().__init__(ray_params, **options)

    def start_api_server(self, **_options: Any) -> None:
        """Start none."""

    def start_raylet(self, *arguments: Any, **options: Any) -> None:
        """Start the raylet with the fork server and without its own agents, after writing the ports that they
        would write."""
        for name in DASHBOARD_PORTS:
            persist_port(self._session_dir, self._node_id, name, NOT_IN_USE)
        with _changed_commands(self._changed):
            super().start_raylet(*arguments, **options)

    def _changed(self, command: list[str]) -> list[str]:
        command = without_agents(command)
        if self.fork_server is None:
            return command
        return self.fork_server.command(command, Path(self._session_dir))

    def kill_all_processes(self, *arguments: Any, **options: Any) -> None:
        super().kill_all_processes(*arguments, **options)
        if self._kept_free is not None:
            self._kept_free.close()


@contextmanager
def _changed_commands(change: Callable[[list[str]], list[str]]) -> Iterator[None]:
    """Within this context, Ray starts servers by changed commands."""
    start = ray_services.start_ray_process

    def start_changed(command: list[str], *arguments: Any, **options: Any) -> Any:
        return start(change(command), *arguments, **options)

    ray_services.start_ray_process = start_changed
    try:
        yield
    finally:
        ray_services.start_ray_process = start


def without_agents(command: list[str]) -> list[str]:
    """``command`` with ``NO_AGENT`` for each of the raylet's agents."""
    replaced = {option: option + NO_AGENT for option in AGENTS}
    return [
        next((new for option, new in replaced.items() if part.startswith(option)), part) for part in command
    ]


def _reserved_port() -> socket.socket | None:
    """Reserve a loopback port for the runtime environment agent. It is bound here with SO_REUSEADDR, as the
    agent binds it, so that no other process gets it first. ``None`` on other systems than Linux, where that
    would block the agent; Ray then waits for the agent."""
    if sys.platform != "linux":
        return None
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
