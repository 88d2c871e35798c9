"""Taking a node out of service in peace, asked from any node of the cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import msgspec

from actors.cluster.beside import in_thread
from actors.cluster.environment import ClusterError
from actors.cluster.nodes import here
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.session import join, leave, named
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import NODE_LETTERS, name_on
from actors.settings import Settings
from engine.limits import DRAIN_SECONDS

STOP_SECONDS: Final = 15.0

_drained: msgspec.msgpack.Decoder[int | None] = msgspec.msgpack.Decoder(int | None)


async def drain(settings: Settings, node: str | None) -> tuple[str, int]:
    """Have the shard hosts of ``node`` (the first letters of its id; none = the one this runs on) give
    everything away and end, and its edge and API servers finish and listen no more; returns the node
    and how many hosts it had. It gets none again. Raises ClusterError.

    The processes that exist once begin elsewhere by themselves when the node is stopped.
    """
    if settings.ray_address is None:
        raise ClusterError("there is no cluster: STANCHION_RAY_ADDRESS is not set")
    await asyncio.to_thread(join, settings)
    try:
        return await _drain(settings, RayPeers(settings), (node or here())[:NODE_LETTERS])
    except (PeerGoneError, PeerFailedError):
        raise ClusterError("the coordinator of this installation is not to be reached") from None
    finally:
        leave(settings)


async def _drain(settings: Settings, peers: RayPeers, node: str) -> tuple[str, int]:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            hosts = _drained.decode(await peers.call(COORDINATOR, "drain", node.encode()))
    except TimeoutError:
        raise ClusterError("the node has not given its shards away in time") from None
    if hosts is None:
        raise ClusterError("no other node has shard hosts: this one cannot be drained")
    names = [name for name in await in_thread(named, settings) if name_on("", node) in name]
    await asyncio.gather(*(_stop(peers, name) for name in names))
    return node, hosts


async def _stop(peers: RayPeers, name: str) -> None:
    with suppress(PeerGoneError, PeerFailedError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await peers.ask(name, "stop")
