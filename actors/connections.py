"""Open connections of one HTTP port: how many there may be, and how long each may wait.

A port admits a connection before it reads from it, counts it by source address, and checks every open
connection against its deadlines once a second. Deadlines are plain numbers that the sweep compares, so a
request sets no timers.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from actors.source_address import Network, is_trusted, source_of
from engine.limits import (
    HTTP_CONNECTIONS_MAX,
    HTTP_CONNECTIONS_PER_ADDRESS_MAX,
    HTTP_DRAIN_SECONDS,
    HTTP_HEAD_SECONDS,
    HTTP_IDLE_SECONDS,
    HTTP_LINGER_BYTES_MAX,
    HTTP_LINGER_SECONDS,
    HTTP_SWEEP_SECONDS,
)


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of one port; ``engine.limits`` gives the reasons. Times are seconds."""

    connections_max: int = HTTP_CONNECTIONS_MAX
    per_address_max: int = HTTP_CONNECTIONS_PER_ADDRESS_MAX
    head_seconds: float = HTTP_HEAD_SECONDS
    idle_seconds: int = HTTP_IDLE_SECONDS
    drain_seconds: float = HTTP_DRAIN_SECONDS
    linger_seconds: float = HTTP_LINGER_SECONDS
    linger_bytes_max: int = HTTP_LINGER_BYTES_MAX
    sweep_seconds: float = HTTP_SWEEP_SECONDS


class Connection(Protocol):
    """One open connection, as the sweep sees it."""

    def enforce(self, now: float) -> None:
        """End the connection if one of its deadlines has passed at ``now`` (``ConnectionTable.now``)."""
        ...

    def evict(self) -> None:
        """Close an idle connection, because its place is needed."""
        ...


class Admission:
    """The place of one connection in the counts. ``end`` twice is harmless."""

    __slots__ = ("_source", "_table")

    def __init__(self, table: ConnectionTable, source: str | None) -> None:
        self._table: ConnectionTable | None = table
        self._source = source

    def end(self) -> None:
        """Give the place back."""
        table, self._table = self._table, None
        if table is not None:
            table.release(self._source)


class ConnectionTable:
    """The connections of one port. ``clock`` counts seconds; tests hand in one of their own."""

    def __init__(
        self,
        limits: ConnectionLimits,
        trusted: Sequence[Network] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits: Final = limits
        self.now: Final = clock
        self.idle: Final[dict[Connection, None]] = {}
        """Connections between two requests, the longest idle first."""
        self._open: set[Connection] = set()
        self._trusted = tuple(trusted)
        self._by_source: Counter[str] = Counter()
        self._count = 0
        self._sweeping: asyncio.TimerHandle | None = None

    @property
    def count(self) -> int:
        """Admitted connections."""
        return self._count

    def admit(self, peer: str | None) -> Admission | None:
        """A place for a connection from the address ``peer``, or ``None`` when a limit is reached.

        A full port closes its longest idle connection to make room.
        """
        source = None if is_trusted(peer, self._trusted) else source_of(peer, (), ())
        if source is not None and self._by_source[source] >= self.limits.per_address_max:
            return None
        if self._count >= self.limits.connections_max and not self._evict():
            return None
        self._count += 1
        if source is not None:
            self._by_source[source] += 1
        return Admission(self, source)

    def release(self, source: str | None) -> None:
        """For ``Admission`` alone."""
        self._count -= 1
        if source is not None:
            self._by_source[source] -= 1
            if not self._by_source[source]:
                del self._by_source[source]

    def add(self, connection: Connection) -> None:
        """Check ``connection`` at each sweep until it is removed."""
        self._open.add(connection)

    def remove(self, connection: Connection) -> None:
        """The connection has ended."""
        self._open.discard(connection)
        self.idle.pop(connection, None)

    def start(self) -> None:
        """Sweep from now on, in the running loop."""
        # A timer and not a task: it runs when the writes of the loop's last turn have reached the kernel.
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(self.limits.sweep_seconds, self._sweep_again)

    def stop(self) -> None:
        """End sweeping. Safe to call twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def sweep(self) -> None:
        """Have every connection check its deadlines."""
        now = self.now()
        for connection in list(self._open):
            connection.enforce(now)

    def _sweep_again(self) -> None:
        self.start()
        self.sweep()

    def _evict(self) -> bool:
        oldest = next(iter(self.idle), None)
        if oldest is None:
            return False
        del self.idle[oldest]
        oldest.evict()
        return True


class Drain:
    """Watches one write buffer: since when it has not been empty."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: float | None = None

    def overdue(self, unsent_bytes: int, now: float, seconds: float) -> bool:
        """Whether ``unsent_bytes``, the buffer at ``now``, has held something for ``seconds``."""
        if unsent_bytes == 0:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= seconds


class OneRequestConnection(asyncio.Protocol):
    """Puts limits around a protocol whose connections carry one short request: counts, and a whole lifetime.

    ``seconds`` after it was opened the connection is cut, in whatever state it is.
    """

    def __init__(self, inner: asyncio.Protocol, table: ConnectionTable, seconds: float) -> None:
        self._inner = inner
        self._table = table
        self._until = table.now() + seconds
        self._admission: Admission | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        peer = transport.get_extra_info("peername")
        self._admission = self._table.admit(peer[0] if peer else None)
        if self._admission is None:
            transport.abort()
            return
        self._table.add(self)
        self._inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self._admission is not None:
            self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._admission is not None else None

    def pause_writing(self) -> None:
        if self._admission is not None:
            self._inner.pause_writing()

    def resume_writing(self) -> None:
        if self._admission is not None:
            self._inner.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        admission, self._admission = self._admission, None
        if admission is not None:
            self._table.remove(self)
            admission.end()
            self._inner.connection_lost(exc)

    def enforce(self, now: float) -> None:
        if now >= self._until:
            self._transport.abort()

    def evict(self) -> None:
        self._transport.abort()
