"""Roles: what a process of an installation is. A role is a plain object; ``actors.cluster`` puts each into
a process of its own."""

from __future__ import annotations

from typing import Protocol

import msgspec

from actors.metrics import Figures
from actors.peers import Peers
from actors.settings import Settings


class Context(msgspec.Struct, frozen=True):
    """What a role is built from."""

    settings: Settings
    name: str
    """Unique in the installation; a host's name is its incarnation."""
    peers: Peers


class Role(Protocol):
    """The same verbs for every role. They run in one event loop; ``stop`` twice is harmless."""

    async def start(self) -> None:
        """Serve; returns when it does."""

    async def call(self, method: str, payload: bytes) -> bytes:
        """Answer another process."""

    def figures(self) -> Figures:
        """What it counts, by metric name (``actors.metrics``)."""

    async def stop(self) -> None:
        """Finish what is under way and let go of everything."""
