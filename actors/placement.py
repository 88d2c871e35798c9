"""Placement of processes on the nodes of a cluster, and of shards on hosts. Pure functions, without I/O.

Shards without a living owner go to the hosts with the fewest shards. Then hosts with too many shards give
some to hosts with too few; no other shard moves. On small machines some hosts are *reserves*: they own shards
only while too few others live. Nodes are named by Ray's ids, because two nodes can share a machine.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

NODES_SECONDS: Final = 2.0
"""Interval between reads of the node list, where nodes can join or leave. Failure detection notices deaths
much sooner."""
CORES_WITHOUT_RESERVE: Final = 4
"""On a machine with fewer cores, half of the hosts are reserves by default."""
NODE_LETTERS: Final = 8
"""Number of letters of a node's id that are part of the names of its processes."""

_SUCCESSOR: Final = re.compile(r"(.+)\.(\d+)")


class ProcessSpec(msgspec.Struct, frozen=True):
    """A process of an installation and its spread over the nodes.

    ``supervisor_node``: one process in the cluster, on the supervisor's node. ``once``: one process in the
    cluster, on the first node. ``last_node``: the same on the last node. ``standby``: the same, if there are
    several nodes; it can take the place of another process. ``round_robin``: one of several that
    are distributed over the nodes in turn. ``each``: one process on each node.
    """

    name: str
    factory: str
    """Builds the role: ``module:function``."""
    spread: Literal["supervisor_node", "once", "last_node", "standby", "round_robin", "each"] = "once"
    niceness: int = 0
    """The nice value (nice(1))."""

    @property
    def singleton(self) -> bool:
        """Whether there is exactly one such process, which others call by its name."""
        return self.spread in ("supervisor_node", "once", "last_node", "standby")


class PlacedProcess(msgspec.Struct, frozen=True):
    """A process on its node. A ``pinned`` process ends with the node; any other restarts on another node."""

    name: str
    spec: ProcessSpec
    node: str
    pinned: bool


def place(specs: Sequence[ProcessSpec], nodes: Collection[str], own: str) -> list[PlacedProcess]:
    """Place the processes of ``specs`` on ``nodes`` (at least one), in the order of the specs.

    ``own`` is the supervisor's node. It need not be one of ``nodes``; then it only gets the processes of
    ``supervisor_node``. A process of ``each`` has its spec's name on ``own``, and a name with the node's
    letters on every other node.
    """
    ordered = [node for node in (own,) if node in nodes] + sorted(set(nodes) - {own})
    placed: list[PlacedProcess] = []
    turn = 0
    for spec in specs:
        if spec.spread == "each":
            placed += (
                PlacedProcess(spec.name if node == own else name_on(spec.name, node), spec, node, pinned=True)
                for node in ordered
            )
        elif spec.spread == "round_robin":
            placed.append(PlacedProcess(spec.name, spec, ordered[turn % len(ordered)], pinned=False))
            turn += 1
        elif spec.spread != "standby" or len(ordered) > 1:
            node = {"supervisor_node": own, "once": ordered[0]}.get(spec.spread, ordered[-1])
            placed.append(PlacedProcess(spec.name, spec, node, pinned=False))
    return placed


def name_on(name: str, node: str) -> str:
    """The name, on ``node``, of a process that exists on several nodes."""
    return f"{name}@{node[:NODE_LETTERS]}"


def successor_of(name: str, number: int) -> str:
    """The name of a process that starts beside the one it replaces, ``number`` times after the first."""
    return f"{name}.{number}"


def placed_name(name: str) -> str:
    """The name under which a process, or the first of its predecessors, was placed."""
    successor = _SUCCESSOR.fullmatch(name)
    return name if successor is None else successor[1]


def successor_number(name: str) -> int:
    """The number of replacements before a process."""
    successor = _SUCCESSOR.fullmatch(name)
    return 0 if successor is None else int(successor[2])


def missing_hosts(nodes: Collection[str], hosts: Collection[str], wanted: int) -> list[str]:
    """The nodes with fewer than ``wanted`` hosts, once for each missing host. ``hosts`` lists the node of
    each existing host. The nodes alternate, so that no node waits for the second host of another."""
    present = Counter(hosts)
    lacking = [(number, node) for node in sorted(nodes) for number in range(present[node], wanted)]
    return [node for _, node in sorted(lacking)]


def default_reserve(hosts: int, cores: int) -> int:
    """How many of a node's ``hosts`` are reserves, unless the operator chooses.

    A host does less than half of the work of its decisions; edge and database do the rest. So one host keeps
    two cores busy. A second one would only halve the batches and double the wake-ups.
    """
    return hosts // 2 if cores < CORES_WITHOUT_RESERVE else 0


def reserves(owners: Mapping[int, str | None], nodes: Mapping[str, str], serving: int) -> set[str]:
    """The hosts that should own no shards: all but ``serving`` of each node. Those that own most shards
    serve. ``nodes`` has the node of each host."""
    load = Counter(owners.values())
    by_node: dict[str, list[str]] = {}
    for host in sorted(nodes, key=lambda host: (-load[host], host)):
        by_node.setdefault(nodes[host], []).append(host)
    return {host for hosts in by_node.values() for host in hosts[serving:]}


class ShardMove(msgspec.Struct, frozen=True):
    """Shards that move from ``giver`` to ``taker``; ``giver`` is ``None`` when no process owns them."""

    giver: str | None
    taker: str
    shards: tuple[int, ...]


def adopt_orphans(
    owners: Mapping[int, str | None],
    hosts: Collection[str],
    unable: Collection[str] = (),
    reserve: Collection[str] = (),
) -> list[ShardMove]:
    """Assign every shard without an owner in ``hosts`` evenly to ``hosts``; living owners keep their shards.
    Hosts in ``unable`` get shards only if there is no other host; hosts in ``reserve`` only before those."""
    load = {host: [shard for shard, owner in owners.items() if owner == host] for host in sorted(hosts)}
    given: dict[str, list[int]] = {host: [] for host in load}
    able = [host for host in load if host not in unable]
    takers = [host for host in able if host not in reserve] or able or list(load)
    for shard in sorted(shard for shard, owner in owners.items() if owner not in load):
        taker = min(takers, key=lambda host: len(load[host]))
        load[taker].append(shard)
        given[taker].append(shard)
    return [ShardMove(None, host, tuple(shards)) for host, shards in given.items() if shards]


def even_out(
    owners: Mapping[int, str | None], hosts: Collection[str], reserve: Collection[str] = ()
) -> list[ShardMove]:
    """The fewest moves after which hosts in ``reserve`` own nothing, and the shard counts of the others
    differ by at most one."""
    load = {host: sorted(shard for shard, owner in owners.items() if owner == host) for host in sorted(hosts)}
    serving = [host for host in load if host not in reserve] or list(load)
    relieved = [host for host in load if host not in serving]
    moved: dict[tuple[str, str], list[int]] = {}
    while True:
        busiest = max(serving, key=lambda host: len(load[host]))
        taker = min(serving, key=lambda host: len(load[host]))
        giver = next((host for host in relieved if load[host]), busiest)
        if giver is busiest and len(load[giver]) - len(load[taker]) <= 1:
            return [ShardMove(giver, taker, tuple(shards)) for (giver, taker), shards in moved.items()]
        shard = load[giver].pop()
        load[taker].append(shard)
        moved.setdefault((giver, taker), []).append(shard)


def hand_off(owners: Mapping[int, str | None], giver: str, takers: Collection[str]) -> list[ShardMove]:
    """Move all shards of ``giver`` to ``takers``, first to those with the fewest shards."""
    load = Counter(dict.fromkeys(sorted(takers), 0))
    load.update(owner for owner in owners.values() if owner is not None and owner in load)
    given: dict[str, list[int]] = {taker: [] for taker in load}
    for shard in sorted(shard for shard, owner in owners.items() if owner == giver):
        taker = min(load, key=load.__getitem__)
        load[taker] += 1
        given[taker].append(shard)
    return [ShardMove(giver, taker, tuple(shards)) for taker, shards in given.items() if shards]
