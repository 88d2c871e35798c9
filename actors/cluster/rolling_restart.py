"""Rolling restart: replace every process by a new one, one after the other, while the installation serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import msgspec

from actors.cluster.environment import RestartError
from actors.cluster.peers import RayPeers
from actors.cluster.process_set import ProcessSet
from actors.peers import PeerFailedError, PeerGoneError
from engine.limits import ROLE_START_SECONDS

REPLACE_SECONDS: Final = 2 * ROLE_START_SECONDS
"""Time for a new shard host to start and to take over all shards of the old one."""

Report = Callable[[str], None]
"""Receives one line for each replaced process."""

_decode_names = msgspec.msgpack.Decoder(list[str]).decode


async def replace_all(peers: RayPeers, processes: ProcessSet, report: Report) -> None:
    """Replace the shard hosts, then the other processes in their order. Raises RestartError at the first
    process that cannot be replaced; the remaining processes continue unchanged."""
    try:
        async with asyncio.timeout(ROLE_START_SECONDS):
            hosts = _decode_names(await peers.coordinate("hosts", b""))
    except (PeerGoneError, PeerFailedError, TimeoutError):
        raise RestartError("the coordinator does not answer") from None
    for host in hosts:
        await _replace_host(peers, host, report)
    for name, process in processes.items():
        began = time.monotonic()
        try:
            await process.replace()
        except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
            raise RestartError(f"{name} does not start: {failure!s}".rstrip(": ")) from None
        report(f"{name} is new ({time.monotonic() - began:.1f} s)")


async def _replace_host(peers: RayPeers, old: str, report: Report) -> None:
    began = time.monotonic()
    try:
        async with asyncio.timeout(REPLACE_SECONDS):
            new = (await peers.coordinate("replace", old.encode())).decode()
    except (PeerGoneError, PeerFailedError, TimeoutError) as failure:
        raise RestartError(f"{old} could not be replaced: {failure}".rstrip(": ")) from None
    if new == old:
        raise RestartError(f"{old} could not hand over its shards")
    report(f"{old} is {new or 'gone'} ({time.monotonic() - began:.1f} s)")
