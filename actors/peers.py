"""Calls between processes of an installation. ``actors.cluster`` implements them over Ray; tests implement
them in one event loop."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.limits import SHARD_COUNT

NETWORK = "network"
"""The role of the simulated network."""
NETWORKS = (NETWORK, "network-2")
"""Its processes, of which one is active (``actors.warm_standby``)."""


class RoutingTable(msgspec.Struct, frozen=True):
    """The owner of each shard. A newer table has a greater ``version``."""

    version: int
    owners: tuple[str | None, ...]
    """The incarnation of the host that owns each shard, by shard number; ``None`` while it has no owner."""
    reserves: tuple[str, ...] = ()
    """Living hosts that own shards only after the end of another one."""


UNKNOWN_TABLE = RoutingTable(0, (None,) * SHARD_COUNT)


class PeerGoneError(Exception):
    """The process has died. It may have executed the call."""


class PeerFailedError(Exception):
    """The process lives and failed with an unexpected error. The message is one line without values; that
    process's log has the traceback."""


class Peers(Protocol):
    """The other processes of the installation.

    All calls raise ``PeerGoneError`` and ``PeerFailedError``; none has a time limit of its own.
    """

    async def execute(self, incarnation: str, batch: bytes) -> bytes:
        """Have a shard host execute a batch of commands (``actors.submission``)."""

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        """Wait for deferred replies of a shard host to ``caller``, and return them."""

    async def prepare(self, incarnation: str) -> None:
        """Connect to a shard host, so that the first call need not wait. Raises nothing if that fails."""

    async def table(self, after: int) -> RoutingTable:
        """Wait until the routing table is newer than version ``after``, and return it."""

    async def publish_programme(self, programme: bytes) -> None:
        """Announce a programme's new version to every host; returns when all hosts have it."""

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        """Call the process of ``role``; returns its answer."""
