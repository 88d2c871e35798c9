"""Whole lives over ISO 8583: spend, increment, reversal or presentment, and a refund now and then.

Each slot runs one life after the other on its card, one message at a time. A completed life leaves no hold;
only lives that the end of the benchmark cut off count as approved.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

import msgspec

from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.acquirer_follow_ups import FirstMessage, increment, presentment, reversal_advice
from engine.iso8583.elements import PresentmentReference
from engine.iso8583.framing import BadFrame, FrameCutter
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import approves
from loadtests.figures import Samples
from loadtests.generators.wire import ANSWER_SECONDS_MAX, Address
from loadtests.generators.workload import SALE, Card

ACQUIRER_ID: Final = "800002"
INCREMENTED: Final = 0.10
REVERSED: Final = 0.15
REFUNDED: Final = 0.05
_serials = itertools.count(os.getpid())


class LifeLoad:
    """``in_flight`` lives at a time over ``connections``; see ``workload.Load``."""

    def __init__(
        self, addresses: Sequence[Address], cards: Sequence[Card], *, connections: int, in_flight: int
    ) -> None:
        self._addresses = addresses
        self._cards = cards
        self._count = connections
        self._in_flight = in_flight
        self._random = random.Random(len(cards))
        self._connections: list[_Connection] = []
        self._lives: list[asyncio.Task[None]] = []
        self._samples = Samples()
        self._running = True
        self.lives = 0
        """Spends that were approved so far."""
        self.answers = 0
        """Answers so far, to messages of every kind."""

    @property
    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    @property
    def counts_as_server(self) -> bool:
        return False

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(self._count):
            host, port = self._addresses[number % len(self._addresses)]
            _, connection = await loop.create_connection(_Connection, host, port)
            self._connections.append(connection)
        for number in range(self._in_flight):
            slot = self._live(self._connections[number % self._count], self._cards[number % len(self._cards)])
            self._lives.append(asyncio.create_task(slot))

    async def stop(self) -> Samples:
        """Let every open life complete."""
        self._running = False
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*self._lives, return_exceptions=True), ANSWER_SECONDS_MAX)
        self._samples.lost = sum(len(connection.waiting) for connection in self._connections)
        for connection in self._connections:
            connection.close()
        return self._samples

    def take(self) -> Samples:
        """The samples since the last call, except for the open approvals, which ``stop`` returns."""
        taken, self._samples = self._samples, Samples(approved=self._samples.approved)
        taken.approved = 0
        return taken

    async def _live(self, connection: _Connection, card: Card) -> None:
        while self._running:
            sale = Sale(pan=card.pan, expiry=card.expiry, **SALE)
            names = _references()
            request = authorization_request(sale, names)
            if not await self._send(connection, request):
                continue
            self._samples.approved += 1
            self.lives += 1
            first = FirstMessage(ACQUIRER_ID, names.stan, request.fields[7])
            await self._rest(connection, sale, first, names.network_txn_id or "")
            self._samples.approved -= 1

    async def _rest(self, connection: _Connection, sale: Sale, first: FirstMessage, life: str) -> None:
        """Run the follow-ups of an approved spend to the end of its life."""
        if self._random.random() < INCREMENTED:
            await self._send(connection, increment(sale, _references(life), first))
        names = _references(life)
        if self._random.random() < REVERSED:
            await self._send(connection, reversal_advice(sale, names, first, None))
        else:
            arn = PresentmentReference(f"{next(_serials) % 10**23:023d}", 1)
            await self._send(connection, presentment(sale, names, first, arn, final=True))
        if self._random.random() < REFUNDED:
            refund = msgspec.structs.replace(sale, kind="refund")
            await self._send(connection, authorization_request(refund, _references()))

    async def _send(self, connection: _Connection, message: Message) -> bool:
        """Whether the answer approves."""
        began = time.monotonic()
        code = await connection.ask(message)
        self._samples.started.append(began)
        self._samples.done.append(time.monotonic())
        self.answers += 1
        agreed = approves(code)
        self._samples.refused += not agreed
        return agreed


def _references(life: str | None = None) -> References:
    serial = next(_serials)
    now_ms = time.time_ns() // 1_000_000
    return References(ACQUIRER_ID, f"{serial % 1_000_000:06d}", now_ms, life or f"LL{serial:012d}")


class _Connection(asyncio.Protocol):
    """One connection. Answers are matched by trace number, which is unique among open requests."""

    def __init__(self) -> None:
        self._cutter = FrameCutter()
        self._transport: asyncio.BaseTransport | None = None
        self.waiting: dict[str, asyncio.Future[str]] = {}

    async def ask(self, message: Message) -> str:
        """DE39 of the answer."""
        assert isinstance(self._transport, asyncio.Transport)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.waiting[message.fields[11]] = answer
        self._transport.write(ISO87_ASCII.framing.frame(ISO87_ASCII.encode(message)))
        return await answer

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        for payload in self._cutter.feed(data):
            if isinstance(payload, BadFrame):
                continue
            fields = ISO87_ASCII.decode(payload).fields
            answer = self.waiting.pop(fields[11], None)
            if answer is not None and not answer.done():
                answer.set_result(fields[39])
