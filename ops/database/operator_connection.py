"""Connections of the operators' commands to the database."""

from __future__ import annotations

from typing import Final

from actors.primary import PrimaryConnection, connect

CONNECT_SECONDS: Final = 10.0
SESSION: Final = {"synchronous_commit": "on"}
"""Overrides the default of the role or the database: a command reports only what the standby has too."""


async def connect_operator(dsn: str, *, command_seconds: float | None = None) -> PrimaryConnection:
    """Connect to the primary of ``dsn``. ``command_seconds`` limits each statement; default: no limit. Raises
    CannotConnectError."""
    return await connect(dsn, "stanchion-cli", CONNECT_SECONDS, SESSION, command_seconds=command_seconds)


async def connect_for_pool(dsn: str, **_pool: object) -> PrimaryConnection:
    """The same as the ``connect`` of a pool."""
    return await connect_operator(dsn)
