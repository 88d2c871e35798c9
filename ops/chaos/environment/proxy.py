"""A TCP proxy between the installation and one of its servers, which simulates a bad network.

It can delay bytes, hold them back, and reset connections: all at once, or each one just before its client
gets an answer, which leaves commits with an unknown outcome.
"""

from __future__ import annotations

import asyncio
from typing import Self, cast

HOST = "127.0.0.1"


class Proxy:
    """An async context manager in front of ``127.0.0.1:port``; after entering, ``port`` is the proxy's own
    port."""

    def __init__(self, port: int) -> None:
        self._upstream = port
        self._server: asyncio.Server | None = None
        self._pairs: set[_Pair] = set()
        self.port = 0
        self.delay_seconds = 0.0
        """Delay of all bytes, in both directions."""
        self.swallows_answers = False
        """Whether the next answer on each connection is dropped and the connection reset."""
        self.lost_answers = 0
        self._open = True
        self._answers_open = True

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: _Side(_Pair(self)), HOST, 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_exception: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return len(self._pairs)

    def cut(self) -> int:
        """Reset every connection; returns their number."""
        pairs = list(self._pairs)
        for pair in pairs:
            pair.abort()
        return len(pairs)

    def hold(self) -> None:
        """Hold all bytes back; connections stay open, as if the server were frozen."""
        self._open = False

    def release(self) -> None:
        """Pass on the bytes that were held back, and all later ones."""
        self._open = True
        self._flush()

    def hold_answers(self) -> None:
        """Pass requests on, and hold every answer back."""
        self._answers_open = False

    def pass_answers(self) -> None:
        """Pass on the answers that were held back, and hold later ones back."""
        self._answers_open = True
        self._flush()
        self._answers_open = False

    def release_answers(self) -> None:
        """Pass on the answers that were held back, and all later ones."""
        self._answers_open = True
        self._flush()

    def _flush(self) -> None:
        for pair in list(self._pairs):
            pair.flush()

    # Used by the connections

    def passes(self, *, answers: bool) -> bool:
        """Whether bytes may pass: answers of the server, or requests."""
        return self._open and (self._answers_open or not answers)

    @property
    def upstream(self) -> int:
        """The server's port."""
        return self._upstream

    def joined(self, pair: _Pair) -> None:
        self._pairs.add(pair)

    def left(self, pair: _Pair) -> None:
        self._pairs.discard(pair)


class _Pair:
    """A client's connection and the connection to the server that belongs to it."""

    def __init__(self, proxy: Proxy) -> None:
        self.proxy = proxy
        self.sides: list[_Side] = []
        self._held: list[tuple[_Side, bytes]] = []
        self._due: dict[_Side, float] = {}
        """When the newest delayed bytes of a side arrive."""
        self._connecting: asyncio.Task[None] | None = None
        self.gone = False

    def begin(self, client: _Side) -> None:
        """A client has connected: connect to the server."""
        self.sides.append(client)
        self.proxy.joined(self)
        self._connecting = asyncio.create_task(self._connect())

    async def _connect(self) -> None:
        try:
            loop = asyncio.get_running_loop()
            await loop.create_connection(lambda: _Side(self), HOST, self.proxy.upstream)
        except OSError:
            self.abort()
        else:
            self.flush()

    def received(self, side: _Side, data: bytes) -> None:
        """Bytes from one side: pass them to the other side, delay them or hold them back."""
        answers = side is not self.sides[0]
        if answers and self.proxy.swallows_answers:
            self.proxy.lost_answers += 1
            self.abort()
            return
        loop = asyncio.get_running_loop()
        # Never before earlier, delayed bytes: the order stays the same when the delay ends.
        due = max(loop.time() + self.proxy.delay_seconds, self._due.get(side, 0.0))
        if due > loop.time():
            self._due[side] = due
            loop.call_at(due, self._pass, side, data)
        else:
            self._pass(side, data)

    def _pass(self, side: _Side, data: bytes) -> None:
        if self._waits(side) or any(held is side for held, _ in self._held):
            self._held.append((side, data))
        else:
            self._other(side).write(data)

    def _waits(self, side: _Side) -> bool:
        """Whether bytes from ``side`` are held back."""
        return len(self.sides) < 2 or not self.proxy.passes(answers=side is not self.sides[0])

    def flush(self) -> None:
        """Pass on, in order, all bytes that are no longer held back."""
        if self.gone:
            return
        held, self._held = self._held, []
        for side, data in held:
            if self._waits(side):
                self._held.append((side, data))
            else:
                self._other(side).write(data)

    def abort(self) -> None:
        """Reset both sides."""
        self.gone = True
        self.proxy.left(self)
        for side in self.sides:
            side.abort()

    def _other(self, side: _Side) -> _Side:
        return self.sides[1] if side is self.sides[0] else self.sides[0]


class _Side(asyncio.Protocol):
    """One side of a pair."""

    def __init__(self, pair: _Pair) -> None:
        self._pair = pair
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if self._pair.gone:
            self._transport.abort()
        elif self._pair.sides:
            self._pair.sides.append(self)
        else:
            self._pair.begin(self)

    def data_received(self, data: bytes) -> None:
        self._pair.received(self, data)

    def connection_lost(self, _failure: Exception | None) -> None:
        if not self._pair.gone:
            self._pair.abort()

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
