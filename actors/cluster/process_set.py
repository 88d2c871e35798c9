"""All supervised processes of an installation: where they are placed, and their start and end in order."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from types import MappingProxyType
from typing import Final

import structlog

from actors.cluster.liveness import ROLE_PROBES, Checks
from actors.cluster.peers import RayPeers
from actors.cluster.supervised_process import SupervisedProcess
from actors.placement import PlacedProcess, ProcessSpec, place
from actors.settings import Settings

NODE_START_SECONDS: Final = 60.0
"""Time for the processes of other nodes to serve; the start of the installation does not wait longer."""
NOTHING_RUNS: Final[Mapping[str, str]] = MappingProxyType({})

_log = structlog.get_logger(__name__)


class ProcessSet:
    """The supervised processes by the name under which they were placed, in the order of their specs.

    ``on_failure`` receives faults of the watch over a process.
    """

    def __init__(
        self,
        settings: Settings,
        specs: Sequence[ProcessSpec],
        peers: RayPeers,
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._settings = settings
        self._specs = specs
        self._peers = peers
        self._on_failure = on_failure
        self._own_node = ""
        self._checks = Checks(ROLE_PROBES.check_seconds)
        self._by_name: dict[str, SupervisedProcess] = {}

    def __iter__(self) -> Iterator[SupervisedProcess]:
        # A copy: the set can change while a caller waits between two processes.
        return iter(tuple(self._by_name.values()))

    def items(self) -> tuple[tuple[str, SupervisedProcess], ...]:
        """Placed name and process."""
        return tuple(self._by_name.items())

    def current_names(self) -> dict[str, str]:
        """The current name of each process by its placed name, which a successor inherits."""
        return {placed_name: process.name for placed_name, process in self._by_name.items()}

    def placed(self, nodes: Sequence[str], own_node: str) -> list[PlacedProcess]:
        """All processes, placed on ``nodes``."""
        return place(self._specs, nodes, own_node)

    def launch(self, nodes: Sequence[str], own_node: str, running: Mapping[str, str] = NOTHING_RUNS) -> None:
        """Launch every process on ``nodes``, and forget earlier ones. ``own_node`` is the supervisor's node.
        ``running``: the names of processes that run already, by placed name.

        Ray starts a few at a time. The coordinator is first, because it still has to create the hosts; then
        the API servers, which are last in the specs and import the most code.
        """
        self._own_node = own_node
        self._by_name.clear()
        first, *others = [self._add(each) for each in self.placed(nodes, own_node)]
        for process in (first, *reversed(others)):
            if (name := running.get(process.placed.name)) is not None:
                process.adopt(name)
            else:
                process.launch()

    async def wait_serving(self) -> None:
        """Wait until all processes of this node serve, and those of other nodes serve or have used up
        ``NODE_START_SECONDS``. Raises what ``SupervisedProcess.wait_serving`` raises, for this node."""
        # One after the other, so that the processes that a role calls are there; all of them load meanwhile.
        for process in self:
            if not self.is_elsewhere(process):
                await process.wait_serving()
        with suppress(TimeoutError):
            async with asyncio.timeout(NODE_START_SECONDS):
                others = [process.wait_serving() for process in self if self.is_elsewhere(process)]
                await asyncio.gather(*others, return_exceptions=True)

    async def wait_all_served(self) -> None:
        """Wait until every process has served; requires ``watch``."""
        for process in self:
            await process.serving.wait()

    def watch(self) -> None:
        """Watch all processes."""
        for process in self:
            process.watch(self._on_failure)

    def unwatch(self) -> None:
        """Stop watching."""
        for process in self:
            process.unwatch()

    def follow(self, nodes: Sequence[str]) -> None:
        """Launch the processes of every node on new ``nodes``, and the standbys with the second node; abandon
        the processes of nodes that have left. Without any node, Ray's head has not answered yet, and no
        process is changed."""
        if not nodes:
            return
        wanted = {each.name: each for each in place(self._specs, nodes, self._own_node)}
        pinned = [name for name, process in self._by_name.items() if process.placed.pinned]
        for name in [name for name in pinned if name not in wanted]:
            _log.warning("node_left", node=self._by_name[name].placed.node, name=name)
            self._by_name.pop(name).abandon()
        for name, each in wanted.items():
            if name not in self._by_name:
                _log.info("node_joined", node=each.node, name=name)
                process = self._add(each)
                process.launch()
                process.watch(self._on_failure)

    async def end(self) -> None:
        """End the processes in reverse order, all processes of one spec concurrently."""
        in_reverse = reversed(tuple(self))
        for _, alike in groupby(in_reverse, key=lambda process: process.placed.spec.name):
            await asyncio.gather(*(process.end() for process in alike), return_exceptions=True)

    def clear(self) -> None:
        """Forget all processes."""
        self._by_name.clear()

    def is_elsewhere(self, process: SupervisedProcess) -> bool:
        """Whether the process is pinned to another node than the supervisor's."""
        return process.placed.pinned and process.placed.node != self._own_node

    def _add(self, placed: PlacedProcess) -> SupervisedProcess:
        process = SupervisedProcess(placed, self._settings, self._peers, self._checks)
        self._by_name[placed.name] = process
        return process
