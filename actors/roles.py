"""Roles: the interface between a process and the object that does its work. A role is a plain object;
``actors.cluster`` runs each role in a process of its own."""

from __future__ import annotations

from typing import Protocol

import msgspec

from actors.metrics import Figures
from actors.peers import Peers
from actors.settings import Settings
from actors.tasks import Tasks


class Context(msgspec.Struct, frozen=True):
    """The arguments of a role's factory."""

    settings: Settings
    name: str
    """The process name, unique in the installation; a host's name is its incarnation."""
    peers: Peers
    tasks: Tasks | None = None
    """``None``: this process runs no tasks."""


class Role(Protocol):
    """The lifecycle of every role, in one event loop. ``stop`` is safe to call twice."""

    async def start(self) -> None:
        """Start serving; returns when the role is ready."""

    async def call(self, method: str, payload: bytes) -> bytes:
        """Answer a call of another process. Raises ValueError for an unknown method."""

    def figures(self) -> Figures:
        """The role's figures by metric name (``actors.metrics``)."""

    async def stop(self) -> None:
        """Finish open work and release all resources."""
