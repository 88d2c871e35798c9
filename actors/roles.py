"""Roles: what a process of an installation is. A role is a plain object; ``actors.cluster`` puts each into
a process of its own."""

from __future__ import annotations

from typing import Protocol

import msgspec

from actors.peers import Peers
from actors.settings import Settings


class Context(msgspec.Struct, frozen=True):
    """What a role is built from."""

    settings: Settings
    name: str
    """Unique in the installation; a host's name is its incarnation."""
    peers: Peers


class Role(Protocol):
    """The same three verbs for every role. They run in one event loop; ``stop`` twice is harmless."""

    async def start(self) -> None:
        """Serve; returns when it does."""

    async def call(self, method: str, payload: bytes) -> bytes:
        """Answer another process."""

    async def stop(self) -> None:
        """Finish what is under way and let go of everything."""
