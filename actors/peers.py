"""How processes of an installation reach each other. ``actors.cluster`` implements it over Ray; tests
implement it in one loop."""

from __future__ import annotations

from typing import Protocol

import msgspec

from engine.limits import SHARD_COUNT

NETWORK = "network"
"""The role of the simulated network."""


class RoutingTable(msgspec.Struct, frozen=True):
    """Which host owns which shard. A newer table has a greater ``version``."""

    version: int
    owners: tuple[str | None, ...]
    """The incarnation of the host of each shard; ``None`` while it has none."""


UNKNOWN_TABLE = RoutingTable(0, (None,) * SHARD_COUNT)


class PeerGoneError(Exception):
    """The process has died. Whether it acted on the call is not known."""


class PeerFailedError(Exception):
    """The process lives and its answer was an unexpected error. The message is one line without values; the
    traceback is in that process's own log."""


class Peers(Protocol):
    """Other processes, as seen from one.

    All calls raise ``PeerGoneError`` and ``PeerFailedError``; none has a time limit of its own.
    """

    async def execute(self, incarnation: str, parcel: bytes) -> bytes:
        """Have a shard host execute a batch (``actors.submission``)."""

    async def collect(self, incarnation: str, caller: bytes) -> bytes:
        """Deferred replies of a shard host for ``caller``, as soon as there are any."""

    async def table(self, after: int) -> RoutingTable:
        """The routing table as soon as it is newer than version ``after``."""

    async def publish_programme(self, programme: bytes) -> None:
        """Tell every host about a programme's new version; returns when all have it."""

    async def call(self, role: str, method: str, payload: bytes) -> bytes:
        """Have the one process of ``role`` do something."""
