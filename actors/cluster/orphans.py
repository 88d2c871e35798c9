"""Processes of an earlier supervisor, which has died or whose node has. They exist in a cluster only: a local
Ray ends with its supervisor.

The next supervisor keeps those that it would make in the same way, and ends the others. Shard hosts are the
coordinator's concern.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog
from ray.exceptions import RayError

from actors.cluster.daemon_thread import in_daemon_thread
from actors.cluster.environment import ClusterError
from actors.cluster.hosts import PREFIX
from actors.cluster.peers import COORDINATORS, IDENTITY, ORIGIN, RayPeers
from actors.cluster.process import origin_of
from actors.cluster.ray_session import process_names
from actors.peers import PeerFailedError, PeerGoneError
from actors.placement import PlacedProcess, placed_name, successor_number
from actors.settings import Settings
from engine.limits import ORPHAN_STOP_SECONDS

STOP_SECONDS: Final = 10.0
"""Time for a process to finish its work before it is killed."""
ANSWER_SECONDS: Final = 5.0
"""Time for a process to say what it was made of."""
POLL_SECONDS: Final = 0.05

_log = structlog.get_logger(__name__)


async def adopt_processes(
    settings: Settings, peers: RayPeers, wanted: Sequence[PlacedProcess]
) -> dict[str, str]:
    """Find the running processes that are as ``wanted``: their current names by placed name. All others end,
    coordinators without a stop, which would end their hosts. Raises ClusterError when they do not end in
    time."""
    by_placed_name = {each.name: each for each in wanted}
    # The newest successor of a process is the last one.
    names = sorted(await _orphans(settings), key=successor_number)
    found = [(name, by_placed_name.get(placed_name(name))) for name in names]
    fits = await asyncio.gather(*(_is_as_wanted(settings, peers, *each) for each in found))
    adopted = {
        placed.name: name
        for (name, placed), as_wanted in zip(found, fits, strict=True)
        if as_wanted and placed is not None
    }
    if adopted:
        _log.warning("orphans_adopted", names=sorted(adopted.values()))
    await _end_all(settings, peers, adopted)
    return adopted


async def _is_as_wanted(settings: Settings, peers: RayPeers, name: str, placed: PlacedProcess | None) -> bool:
    if placed is None:
        return False
    wanted = origin_of(placed.spec.factory, settings, placed.spec.niceness)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            origin, _, node = (await peers.call(name, ORIGIN, b"")).decode().partition("@")
    except (PeerGoneError, PeerFailedError, TimeoutError):
        return False
    return origin == wanted and (node == placed.node or not placed.pinned)


async def _end_all(settings: Settings, peers: RayPeers, adopted: Mapping[str, str]) -> None:
    kept = set(adopted.values())
    names = await _orphans(settings) - kept
    if names:
        _log.warning("orphans_found", names=sorted(names))
    await asyncio.gather(*(_end(peers, name) for name in names))
    try:
        async with asyncio.timeout(ORPHAN_STOP_SECONDS):
            while True:
                if await _are_gone(settings, names):
                    return
                # Ray frees a name a moment after its process has ended.
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        raise ClusterError("processes of an earlier supervisor do not end") from None


async def _are_gone(settings: Settings, names: Collection[str]) -> bool:
    return not names or (await _orphans(settings)).isdisjoint(names)


async def _orphans(settings: Settings) -> set[str]:
    try:
        names = await in_daemon_thread(process_names, settings)
    except (RayError, RuntimeError) as failure:
        raise ClusterError(f"STANCHION_RAY_ADDRESS: {type(failure).__name__}") from None
    return {name for name in names if not name.startswith(PREFIX)}


async def _end(peers: RayPeers, name: str) -> None:
    with suppress(PeerGoneError, PeerFailedError, TimeoutError):
        async with asyncio.timeout(STOP_SECONDS):
            # Also for a coordinator: a call looks up the handle that ``kill`` needs.
            await peers.ask(name, "stop" if name not in COORDINATORS else IDENTITY)
    peers.kill(name)
