"""Orphaned processes of a supervisor that was killed. They exist in a cluster only: a local Ray ends with its
supervisor."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

import structlog

from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.environment import ClusterError
from actors.cluster.hosts import PREFIX
from actors.cluster.peers import COORDINATOR, IDENTITY, RayPeers
from actors.cluster.ray_session import process_names
from actors.peers import PeerFailedError, PeerGoneError
from actors.settings import Settings
from engine.limits import ORPHAN_STOP_SECONDS

STOP_SECONDS: Final = 10.0
"""Time for a process to finish its work before it is killed."""
POLL_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)


async def end_orphans(settings: Settings, peers: RayPeers) -> None:
    """End all orphans except shard hosts, which own shards and continue to decide; the next coordinator
    adopts them. The old coordinator is killed without a stop, because its stop would end the hosts. Raises
    ClusterError when orphans do not end in time."""
    names = await _orphans(settings)
    if names:
        _log.warning("orphans_found", names=sorted(names))
    await asyncio.gather(*(_end(peers, name) for name in names))
    try:
        async with asyncio.timeout(ORPHAN_STOP_SECONDS):
            while True:
                if not await _orphans(settings):
                    return
                # Ray frees a name a moment after its process has ended.
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise ClusterError("processes of an earlier supervisor do not end") from None


async def _orphans(settings: Settings) -> set[str]:
    names = await in_daemon_thread(process_names, settings)
    return {name for name in names if not name.startswith(PREFIX)}


async def _end(peers: RayPeers, name: str) -> None:
    with suppress(PeerGoneError, PeerFailedError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            # Also for the coordinator: a call looks up the handle that ``kill`` needs.
            await peers.ask(name, "stop" if name != COORDINATOR else IDENTITY)
    peers.kill(name)
