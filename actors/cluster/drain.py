"""Drain a node: take it out of service in order. Can be called from any node of the cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.environment import ClusterError
from actors.cluster.nodes import own_node
from actors.cluster.peers import RayPeers
from actors.cluster.ray_session import join, leave, process_names
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODE_LETTERS, name_on
from actors.settings import Settings
from engine.limits import DRAIN_SECONDS

STOP_SECONDS: Final = 15.0

_hosts_drained: msgspec.msgpack.Decoder[int | None] = msgspec.msgpack.Decoder(int | None)


async def drain(settings: Settings, node: str | None) -> tuple[str, int]:
    """Drain ``node`` (the first letters of its id; ``None`` is the node of this process).

    Its shard hosts hand over their shards and end, its edge and API servers finish their requests and stop
    listening, and it gets no hosts again. Processes that exist once start on another node when this node is
    stopped. Returns the node and the number of hosts it had. Raises ClusterError.
    """
    if settings.ray_address is None:
        raise ClusterError("there is no cluster: STANCHION_RAY_ADDRESS is not set")
    await asyncio.to_thread(join, settings)
    try:
        return await _drain(settings, RayPeers(settings), (node or own_node())[:NODE_LETTERS])
    except (PeerGoneError, PeerFailedError):
        raise ClusterError("the coordinator of this installation does not answer") from None
    finally:
        leave(settings)


async def _drain(settings: Settings, peers: RayPeers, node: str) -> tuple[str, int]:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            hosts = _hosts_drained.decode(await peers.coordinate("drain", node.encode()))
    except TimeoutError:
        raise ClusterError("the node did not hand over its shards in time") from None
    if hosts is None:
        raise ClusterError("no other node has shard hosts: this one cannot be drained")
    names = await in_daemon_thread(process_names, settings)
    await asyncio.gather(*(_stop(peers, name) for name in names if name_on("", node) in name))
    return node, hosts


async def _stop(peers: RayPeers, name: str) -> None:
    with suppress(PeerGoneError, PeerFailedError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await peers.ask(name, "stop")
