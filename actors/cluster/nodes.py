"""The nodes of the cluster as Ray knows them. A node is told by its id alone: several can share one machine,
and an address can be given to another one."""

from __future__ import annotations

from typing import Any, Final

import ray
import structlog
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster.beside import in_thread
from actors.settings import Settings

NODE_LABEL: Final = "ray.io/node-id"
"""Ray gives it to every node."""

Options = dict[str, Any]
"""Of ``ray.remote``."""

_log = structlog.get_logger(__name__)


def here() -> str:
    """The node of this process; empty without Ray."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def on(node: str, *, pinned: bool) -> Options:
    """Where Ray shall start a process: there and nowhere else if ``pinned``, otherwise there while the node
    lives and on any other node afterwards.

    Not by a soft affinity: Ray takes it for advice and starts what costs nothing anywhere.
    """
    if pinned:
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node, soft=False)}
    elsewhere = {"label_selector": {NODE_LABEL: f"!{node}"}}
    return {"label_selector": {NODE_LABEL: node}, "fallback_strategy": [elsewhere]}


class Nodes:
    """Which nodes take processes. Those without processors, as heads of clusters often are, take none."""

    def __init__(self, settings: Settings) -> None:
        self.may_change = settings.ray_address is not None
        self._last: list[str] = []

    async def living(self) -> list[str]:
        """Their ids, sorted; those of the last time while Ray's head cannot be asked."""
        if not self.may_change:
            return [here()]
        try:
            self._last = taking(await in_thread(ray.nodes))
        except (RayError, RuntimeError, TimeoutError) as failure:
            _log.warning("nodes_unknown", error=type(failure).__name__)
        return self._last

    async def head_answers(self) -> None:
        """Returns when Ray's head answers; raises otherwise, or never returns."""
        await in_thread(ray.nodes)


def taking(table: list[dict[str, Any]]) -> list[str]:
    """The ids of the living nodes of Ray's table that have processors."""
    return sorted(row["NodeID"] for row in table if row["Alive"] and row["Resources"].get("CPU", 0) > 0)
