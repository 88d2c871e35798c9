"""What belongs where: processes on the nodes of a cluster, shards with hosts. Pure arithmetic, so that it can
be tested as a table.

Shards that have no living owner go to the hosts with the fewest; then hosts with too many give some to
those with too few, and nothing else moves. Nodes are named by Ray's ids: two nodes may share a machine.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Literal

import msgspec

NODES_SECONDS: Final = 2.0
"""How often it is asked which nodes there are, where that may change. Deaths are noticed otherwise, and much
sooner."""
NODE_LETTERS: Final = 8
"""So much of a node's id stands in the names of its processes."""


class ProcessSpec(msgspec.Struct, frozen=True):
    """A process of an installation: its name, what makes its role (``module:function``), and how it is
    spread over nodes: ``beside`` the supervisor, once in all; ``once`` in all, on the first node; one of
    several that go ``around`` the nodes; or one on ``each`` node. ``niceness``: as of nice(1)."""

    name: str
    factory: str
    spread: Literal["beside", "once", "around", "each"] = "once"
    niceness: int = 0

    @property
    def called_by_name(self) -> bool:
        """Whether others call it, so that there can be only one of its name."""
        return self.spread in ("beside", "once")


class Placed(msgspec.Struct, frozen=True):
    """A process on its node. One that is ``pinned`` ends with the node; any other begins again elsewhere."""

    name: str
    spec: ProcessSpec
    node: str
    pinned: bool


def place(specs: Sequence[ProcessSpec], nodes: Collection[str], own: str) -> list[Placed]:
    """Where the processes of ``specs`` belong, in their order, while ``nodes`` are there, which are some.

    ``own`` is the supervisor's node, which need not be one of them: then it has only what belongs beside the
    supervisor. On it names are those of the specs; on any other, those of each node carry the node's.
    """
    around = [node for node in (own,) if node in nodes] + sorted(set(nodes) - {own})
    placed: list[Placed] = []
    turn = 0
    for spec in specs:
        if spec.spread == "each":
            placed += (
                Placed(spec.name if node == own else name_on(spec.name, node), spec, node, pinned=True)
                for node in around
            )
        elif spec.spread == "around":
            placed.append(Placed(spec.name, spec, around[turn % len(around)], pinned=False))
            turn += 1
        else:
            node = own if spec.spread == "beside" else around[0]
            placed.append(Placed(spec.name, spec, node, pinned=False))
    return placed


def name_on(name: str, node: str) -> str:
    """The name of a process that exists on several nodes, on one of them."""
    return f"{name}@{node[:NODE_LETTERS]}"


def missing_hosts(nodes: Collection[str], hosts: Collection[str], wanted: int) -> list[str]:
    """The nodes that have fewer than ``wanted`` hosts, each as often as it lacks one; ``hosts`` names the
    node of each host there is. Nodes take turns, so that none waits for another's second host."""
    present = Counter(hosts)
    lacking = [(number, node) for node in sorted(nodes) for number in range(present[node], wanted)]
    return [node for _, node in sorted(lacking)]


class Move(msgspec.Struct, frozen=True):
    """Some shards change hands; ``giver`` is ``None`` when their owner is dead or there has been none."""

    giver: str | None
    taker: str
    shards: tuple[int, ...]


def adopt_orphans(
    owners: Mapping[int, str | None], hosts: Collection[str], unable: Collection[str] = ()
) -> list[Move]:
    """Every shard whose owner is not among ``hosts`` gets one, evenly; living owners keep what they have.
    Hosts that are ``unable`` get none while there are others."""
    load = {host: [shard for shard, owner in owners.items() if owner == host] for host in sorted(hosts)}
    given: dict[str, list[int]] = {host: [] for host in load}
    takers = [host for host in load if host not in unable] or list(load)
    for shard in sorted(shard for shard, owner in owners.items() if owner not in load):
        taker = min(takers, key=lambda host: len(load[host]))
        load[taker].append(shard)
        given[taker].append(shard)
    return [Move(None, host, tuple(shards)) for host, shards in given.items() if shards]


def even_out(owners: Mapping[int, str | None], hosts: Collection[str]) -> list[Move]:
    """The fewest moves after which no living host has more than one shard more than another."""
    load = {host: sorted(shard for shard, owner in owners.items() if owner == host) for host in sorted(hosts)}
    moved: dict[tuple[str, str], list[int]] = {}
    while True:
        giver = max(load, key=lambda host: len(load[host]))
        taker = min(load, key=lambda host: len(load[host]))
        if len(load[giver]) - len(load[taker]) <= 1:
            return [Move(giver, taker, tuple(shards)) for (giver, taker), shards in moved.items()]
        shard = load[giver].pop()
        load[taker].append(shard)
        moved.setdefault((giver, taker), []).append(shard)


def hand_off(owners: Mapping[int, str | None], giver: str, takers: Collection[str]) -> list[Move]:
    """Everything that ``giver`` owns goes to ``takers``, to those with the fewest first."""
    load = Counter(dict.fromkeys(sorted(takers), 0))
    load.update(owner for owner in owners.values() if owner is not None and owner in load)
    given: dict[str, list[int]] = {taker: [] for taker in load}
    for shard in sorted(shard for shard, owner in owners.items() if owner == giver):
        taker = min(load, key=load.__getitem__)
        load[taker] += 1
        given[taker].append(shard)
    return [Move(giver, taker, tuple(shards)) for taker, shards in given.items() if shards]
