"""The nodes of the cluster as Ray reports them. A node is named by its id alone: several nodes can share a
machine, and an address can be given to another node."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import ray
import structlog
from ray.exceptions import RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from actors.cluster.daemon_thread import in_daemon_thread
from actors.settings import Settings
from engine.limits import RAY_ANSWER_SECONDS, RAY_REPEAT_SECONDS

NODE_LABEL: Final = "ray.io/node-id"
"""A label that Ray gives to every node."""

Options = dict[str, Any]
"""Options of ``ray.remote``."""

_log = structlog.get_logger(__name__)


def own_node() -> str:
    """The node of this process; empty without Ray."""
    return str(ray.get_runtime_context().get_node_id()) if ray.is_initialized() else ""


def placement_options(node: str, *, pinned: bool) -> Options:
    """Options that place a process: on ``node`` only if ``pinned``, otherwise on ``node`` while it lives and
    on any other node afterwards.

    A soft affinity would not do: Ray treats it as advice and places actors without resource demands anywhere.
    """
    if pinned:
        return {"scheduling_strategy": NodeAffinitySchedulingStrategy(node_id=node, soft=False)}
    elsewhere = {"label_selector": {NODE_LABEL: f"!{node}"}}
    return {"label_selector": {NODE_LABEL: node}, "fallback_strategy": [elsewhere]}


class Nodes:
    """The nodes that can run processes. Nodes without processors, as heads of clusters often are, cannot."""

    def __init__(self, settings: Settings) -> None:
        self.may_change = settings.ray_address is not None
        self._last: list[str] = []
        self._asking: asyncio.Task[list[dict[str, Any]]] | None = None
        self._asked_at = 0.0

    async def living(self) -> list[str]:
        """The ids of the nodes, sorted; the previous result while Ray's head does not answer."""
        if not self.may_change:
            return [own_node()]
        try:
            self._last = nodes_with_processors(await self._table())
        except (RayError, RuntimeError, TimeoutError) as failure:
            _log.warning("nodes_unknown", error=type(failure).__name__)
        return self._last

    async def head_answers(self) -> None:
        """Returns when Ray's head answers; raises RayError, RuntimeError or TimeoutError otherwise."""
        await self._table()

    def forget(self) -> None:
        """Ray has been started again: a question to the earlier one gets no answer."""
        self._asking = None

    async def _table(self) -> list[dict[str, Any]]:
        """Ray's table of nodes. A head that is away blocks the call, possibly for hours, so callers share
        one."""
        now = time.monotonic()
        if self._asking is None or self._asking.done() or now - self._asked_at > RAY_REPEAT_SECONDS:
            self._asking = asyncio.create_task(in_daemon_thread(ray.nodes, seconds=None))
            self._asking.add_done_callback(_retrieve)
            self._asked_at = now
        async with asyncio.timeout(RAY_ANSWER_SECONDS):
            return await asyncio.shield(self._asking)


def _retrieve(asking: asyncio.Task[Any]) -> None:
    """Take the exception: all callers may have given up."""
    if not asking.cancelled():
        asking.exception()


def nodes_with_processors(table: list[dict[str, Any]]) -> list[str]:
    """The ids of the living nodes in Ray's table that have processors."""
    return sorted(row["NodeID"] for row in table if row["Alive"] and row["Resources"].get("CPU", 0) > 0)
