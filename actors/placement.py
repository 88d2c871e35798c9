"""Which host should own which shard: pure arithmetic, so that it can be tested as a table.

Shards that have no living owner go to the hosts with the fewest; then hosts with too many give some to
those with too few, and nothing else moves.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec


class Move(msgspec.Struct, frozen=True):
    """Some shards change hands; ``giver`` is ``None`` when their owner is dead or there has been none."""

    giver: str | None
    taker: str
    shards: tuple[int, ...]


def adopt_orphans(owners: Mapping[int, str | None], hosts: Collection[str]) -> list[Move]:
    """Every shard whose owner is not among ``hosts`` gets one, evenly; living owners keep what they have."""
    load = {host: [shard for shard, owner in owners.items() if owner == host] for host in sorted(hosts)}
    given: dict[str, list[int]] = {host: [] for host in load}
    for shard in sorted(shard for shard, owner in owners.items() if owner not in load):
        taker = min(load, key=lambda host: len(load[host]))
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
