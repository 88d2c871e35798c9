"""A local Ray without those of its helpers that nobody here asks anything of.

``ray.init`` also starts a scaler of clouds, a log monitor that would copy logs to a terminal, and an API
server, which it waits for, even where there shall be no dashboard. Its node then takes no process before two
agents, Python programs that import for a second, have written down where they listen. Of all that nothing is
needed, and nothing can be switched off in public. So this is the one module that knows how Ray starts a node
inside (``ray._private``); a version of Ray that does it differently fails at its first start, in every test.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ray._private import node as ray_node
from ray._private import worker as ray_worker
from ray._private.parameter import RayParams
from ray._raylet import (  # type: ignore[attr-defined]
    DASHBOARD_AGENT_LISTEN_PORT_NAME,
    METRICS_AGENT_PORT_NAME,
    METRICS_EXPORT_PORT_NAME,
    persist_port,
)

NOT_IN_USE: Final = -1
"""What the dashboard's agent writes down for each of its ports where Ray is installed without dashboard."""
DASHBOARD_PORTS: Final = (METRICS_AGENT_PORT_NAME, METRICS_EXPORT_PORT_NAME, DASHBOARD_AGENT_LISTEN_PORT_NAME)


def servers() -> dict[str, subprocess.Popen[bytes]]:
    """The servers of the Ray that this process has started, by name; none when there is no such Ray."""
    node: Any = ray_worker._global_node
    if node is None:
        return {}
    return {name: running[0].process for name, running in node.all_processes.items() if running}


@contextmanager
def without_helpers() -> Iterator[None]:
    """Meanwhile ``ray.init`` starts such a node."""
    ordinary = ray_node.Node
    ray_node.Node = LocalNode  # type: ignore[assignment,misc]
    try:
        yield
    finally:
        ray_node.Node = ordinary  # type: ignore[misc]


class LocalNode(ray_node.Node):
    """Ray's two servers and nothing else that has to be waited for."""

    def __init__(self, ray_params: RayParams, **options: Any) -> None:
        ray_params.no_monitor = True
        ray_params.include_log_monitor = False  # type: ignore[assignment]
        self._kept_free = _reserved_port()
        if self._kept_free is not None:
            ray_params.runtime_env_agent_port = self._kept_free.getsockname()[1]
        super().__init__(ray_params, **options)

    def start_api_server(self, **_options: Any) -> None:
        """None."""

    def start_raylet(self, *arguments: Any, **options: Any) -> None:
        """Start it, with what its agents would tell it told already."""
        for name in DASHBOARD_PORTS:
            persist_port(self._session_dir, self._node_id, name, NOT_IN_USE)
        super().start_raylet(*arguments, **options)

    def kill_all_processes(self, *arguments: Any, **options: Any) -> None:
        super().kill_all_processes(*arguments, **options)
        if self._kept_free is not None:
            self._kept_free.close()


def _reserved_port() -> socket.socket | None:
    """A loopback port that nobody gets by chance before the agent for runtime environments listens on it:
    bound here as it will be there. ``None`` where that would be in its way; Ray then waits for the agent."""
    if sys.platform != "linux":
        return None
    reserved = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reserved.bind(("127.0.0.1", 0))
    return reserved
