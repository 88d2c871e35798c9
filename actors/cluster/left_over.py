"""What a supervisor that was killed has left running in a cluster. With a Ray of its own nothing is left."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from actors.cluster.beside import in_thread
from actors.cluster.environment import ClusterError
from actors.cluster.hosts import PREFIX
from actors.cluster.peers import COORDINATOR, RayPeers
from actors.cluster.session import named
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings
from engine.limits import LEFT_OVER_SECONDS

STOP_SECONDS: Final = 10.0
"""What a process gets to finish before it is killed."""
POLL_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)


async def end_left_over(settings: Settings, peers: RayPeers) -> None:
    """End it, but for the hosts: they own shards and go on deciding, and the next coordinator finds them. The
    old coordinator is not let finish, because it would end them. Raises ClusterError."""
    names = await _named(settings)
    if names:
        _log.warning("left_over", names=sorted(names))
    await asyncio.gather(*(_end(peers, name) for name in names))
    try:
        async with asyncio.timeout(LEFT_OVER_SECONDS):
            while True:
                if not await _named(settings):
                    return
                # A name is free a moment after its process has ended.
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise ClusterError("processes of an earlier supervisor do not end") from None


async def _named(settings: Settings) -> set[str]:
    return {name for name in await in_thread(named, settings) if not name.startswith(PREFIX)}


async def _end(peers: RayPeers, name: str) -> None:
    with suppress(PeerGoneError, PeerFailedError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            await peers.ask(name, "stop" if name != COORDINATOR else "whereabouts")
    peers.kill(name)
