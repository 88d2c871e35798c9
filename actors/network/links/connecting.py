"""Keeps the connections of a link that connects to its peer."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from actors.essential import start_essential
from actors.network.links.entry import LinkEntry
from actors.network.links.errors import reason_of
from actors.network.links.tls import link_tls
from actors.tls import ReloadedContext
from engine.limits import (
    LINK_RECONNECT_SECONDS_MAX,
    LINK_RECONNECT_SECONDS_MIN,
    LINK_STABLE_SECONDS,
    TLS_HANDSHAKE_SECONDS,
    TLS_SHUTDOWN_SECONDS,
)

JITTER: Final = (0.5, 1.0)
"""Share of the pause that is used: edges of a cluster do not reconnect at the same instant."""


class OutboundConnection(Protocol):
    """A connection as its connector sees it."""

    ended: asyncio.Event
    opened_at: float


class Connector:
    """Keeps ``entry.connections`` connections while it runs. ``stop`` is safe to call twice."""

    def __init__(
        self,
        entry: LinkEntry,
        protocol: Callable[[], asyncio.Protocol],
        failed: Callable[[str], None],
        *,
        pause_seconds_min: float = LINK_RECONNECT_SECONDS_MIN,
        pause_seconds_max: float = LINK_RECONNECT_SECONDS_MAX,
        stable_seconds: float = LINK_STABLE_SECONDS,
    ) -> None:
        """``failed`` takes the reason for which an attempt has failed."""
        self._entry = entry
        self._protocol = protocol
        self._failed = failed
        self._pauses = (pause_seconds_min, pause_seconds_max)
        self._stable_seconds = stable_seconds
        self._tls: ReloadedContext | None = None
        self._keepers: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Connect in the background. Raises ``OSError`` if the files of TLS cannot be used."""
        if self._keepers:
            return
        self._tls = None if self._entry.tls is None else link_tls(self._entry)
        name = f"link-{self._entry.name}"
        self._keepers = [start_essential(self._keep(), name) for _ in range(self._entry.connections)]

    async def stop(self) -> None:
        """Make no more connections; open ones stay."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        shortest, longest = self._pauses
        pause_seconds = shortest
        while True:
            try:
                connection = await self._connect()
            except (OSError, TimeoutError) as failure:
                self._failed(reason_of(failure))
            else:
                await connection.ended.wait()
                if loop.time() - connection.opened_at >= self._stable_seconds:
                    pause_seconds = shortest
            await asyncio.sleep(pause_seconds * random.uniform(*JITTER))
            pause_seconds = min(2 * pause_seconds, longest)

    async def _connect(self) -> OutboundConnection:
        options: dict[str, Any] = {}
        if self._tls is not None:
            assert self._entry.tls is not None, "the context belongs to it"
            options = {
                "ssl": self._tls.context(),
                "server_hostname": self._entry.tls.server_name or self._entry.host,
                "ssl_handshake_timeout": TLS_HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": TLS_SHUTDOWN_SECONDS,
            }
        async with asyncio.timeout(TLS_HANDSHAKE_SECONDS):
            _, connection = await asyncio.get_running_loop().create_connection(
                self._protocol, self._entry.host, self._entry.port, **options
            )
        return cast(OutboundConnection, connection)
