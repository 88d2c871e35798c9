"""Limits of the open connections of one HTTP port: their number, and their deadlines.

A port admits a connection before it reads from it and counts it by source address. A sweep checks the
deadlines of all open connections once a second. Deadlines are plain numbers: requests set no timers.
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
    """An open connection that the sweep checks."""

    def enforce(self, now: float) -> None:
        """End the connection if one of its deadlines has passed at ``now`` (``ConnectionTable.now``)."""
        ...

    def evict(self) -> None:
        """Close this idle connection to make room for another."""
        ...


class Admission:
    """One admitted connection in the counts."""

    __slots__ = ("_source", "_table")

    def __init__(self, table: ConnectionTable, source: str | None) -> None:
        self._table: ConnectionTable | None = table
        self._source = source

    def end(self) -> None:
        """Uncount the connection. Safe to call twice."""
        table, self._table = self._table, None
        if table is not None:
            table.release(self._source)


class ConnectionTable:
    """The connections of one port. ``clock`` returns seconds."""

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
        """Admit a connection from the address ``peer``; ``None`` if a limit is reached.

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
        """Uncount a connection; called by ``Admission`` only."""
        self._count -= 1
        if source is not None:
            self._by_source[source] -= 1
            if not self._by_source[source]:
                del self._by_source[source]

    def add(self, connection: Connection) -> None:
        """Check ``connection`` at each sweep until it is removed."""
        self._open.add(connection)

    def remove(self, connection: Connection) -> None:
        """Forget a connection that has ended."""
        self._open.discard(connection)
        self.idle.pop(connection, None)

    def start(self) -> None:
        """Start sweeping in the running loop."""
        # A timer instead of a task: it runs after the writes of the loop's last iteration have reached the
        # kernel.
        loop = asyncio.get_running_loop()
        self._sweeping = loop.call_later(self.limits.sweep_seconds, self._sweep_again)

    def stop(self) -> None:
        """Stop sweeping. Safe to call twice."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None

    def sweep(self) -> None:
        """Check the deadlines of all connections."""
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
    """Measures how long one write buffer has been non-empty."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: float | None = None

    def overdue(self, unsent_bytes: int, now: float, seconds: float) -> bool:
        """Whether the buffer, which holds ``unsent_bytes`` at ``now``, has been non-empty for ``seconds``."""
        if unsent_bytes == 0:
            self._since = None
            return False
        if self._since is None:
            self._since = now
        return now - self._since >= seconds


class OneRequestConnection(asyncio.Protocol):
    """Limits a protocol whose connections carry one short request: their number, and their lifetime.

    A connection is cut ``seconds`` after it was opened, in any state.
    """

    def __init__(
        self,
        inner: asyncio.Protocol,
        table: ConnectionTable,
        seconds: float,
        admission: Admission | None = None,
    ) -> None:
        """``admission``: that of a connection that was admitted before its handshake."""
        self._inner = inner
        self._table = table
        self._until = table.now() + seconds
        self._admission = admission
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        if self._admission is None:
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
