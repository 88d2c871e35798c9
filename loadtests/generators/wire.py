"""Authorizations over ISO 8583: few connections, many messages in flight on each.

The generator shares the machine with the measured system, so it is lean: the engine encodes each card's
message once, and the generator fills in the identifying fields (DE7, 11, 12, 13, 37). From an answer it reads
the trace number and the response code, at offsets that the engine's decoder has found once for each bitmap.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

from engine.iso8583.acquirer import References, Sale, authorization_request
from engine.iso8583.codec import MTI_CHARS
from engine.iso8583.elements import retrieval_reference, transmission_time
from engine.iso8583.framing import LENGTH_BYTES, BadFrame, FrameCutter
from engine.iso8583.message import Message
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.tables import ELEMENTS_1987
from engine.iso8583.text_codec import BITMAP_CHARS
from loadtests.figures import Samples
from loadtests.generators.schedule import Schedule
from loadtests.generators.workload import SALE, Card, drawn

ACQUIRER_ID: Final = "800001"
ANSWER_SECONDS_MAX: Final = 10.0
APPROVED: Final = b"00"
STANS: Final = 1_000_000

Address = tuple[str, int]

_stans = itertools.count(os.getpid())
"""Trace numbers of this process; no number repeats within a second."""


class Template(NamedTuple):
    """A framed 0100 without its identifying fields."""

    head: bytes
    middle: bytes
    tail: bytes


class Stamp(NamedTuple):
    """The identifying fields that all messages of one second share."""

    de7: bytes
    de12_13: bytes
    de37: bytes
    """Without the trace number at its end."""


def template(card: Card) -> Template:
    """The 0100 of one card."""
    sale = Sale(pan=card.pan, expiry=card.expiry, **SALE)
    message = authorization_request(sale, References(ACQUIRER_ID, "000000", 0))
    framed = ISO87_ASCII.framing.frame(ISO87_ASCII.encode(message))
    at = {
        number: (begin + LENGTH_BYTES, end + LENGTH_BYTES) for number, (begin, end) in places(message).items()
    }
    return Template(framed[: at[7][0]], framed[at[13][1] : at[37][0]], framed[at[37][1] :])


def stamp(at_ms: int) -> Stamp:
    """The identifying fields of messages sent in the second of ``at_ms``."""
    de7 = transmission_time(at_ms)
    return Stamp(de7.encode(), f"{de7[4:]}{de7[:4]}".encode(), retrieval_reference(at_ms, "").encode())


def places(message: Message) -> dict[int, tuple[int, int]]:
    """The begin and end of each field's value in the encoded message."""
    found: dict[int, tuple[int, int]] = {}
    at = MTI_CHARS + BITMAP_CHARS * (2 if max(message.fields) > 64 else 1)
    for number in sorted(message.fields):
        at += ELEMENTS_1987[number].prefix_digits
        found[number] = (at, at + len(message.fields[number]))
        at = found[number][1]
    return found


class WireLoad:
    """Spends on ``cards``; see ``workload.Load``. Either ``in_flight`` at all times, or ``per_second`` at
    fixed instants."""

    def __init__(
        self,
        addresses: Sequence[Address],
        cards: Sequence[Card],
        *,
        connections: int,
        in_flight: int = 0,
        per_second: float = 0.0,
        weights: Sequence[float] | None = None,
    ) -> None:
        self._addresses = addresses
        self._templates = drawn([template(card) for card in cards], weights)
        self._count = connections
        self._in_flight = in_flight
        self._per_second = per_second
        self._connections: list[_Connection] = []
        self._pacer: asyncio.Task[None] | None = None
        self._samples = Samples()
        self._open: dict[bytes, float] = {}
        self._running = True
        self._idle = asyncio.Event()
        self._second = 0
        self._stamp = stamp(0)

    @property
    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    @property
    def counts_as_server(self) -> bool:
        return False

    @property
    def answers(self) -> int:
        """Answers so far."""
        return len(self._samples.done)

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        for number in range(self._count):
            host, port = self._addresses[number % len(self._addresses)]
            _, connection = await loop.create_connection(lambda: _Connection(self), host, port)
            self._connections.append(connection)
        if self._per_second:
            self._pacer = asyncio.create_task(self._pace())
        else:
            for connection in self._connections:
                self.send(connection, [time.monotonic()] * (self._in_flight // self._count))

    async def stop(self) -> Samples:
        self._running = False
        if self._pacer is not None:
            await self._pacer
            # An answer that arrived before the last message may have set it.
            self._idle.clear()
        if self._open:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._idle.wait(), ANSWER_SECONDS_MAX)
        for connection in self._connections:
            connection.close()
        self._samples.lost = len(self._open)
        return self._samples

    def send(self, connection: _Connection, due: Sequence[float]) -> None:
        """Send one spend for each instant in ``due``, the instants from which their latencies count."""
        now = self._stamped()
        parts: list[bytes] = []
        for at in due:
            stan = b"%06d" % (next(_stans) % STANS)
            self._open[stan] = at
            head, middle, tail = next(self._templates)
            parts += (head, now.de7, stan, now.de12_13, middle, now.de37, stan, tail)
        connection.write(b"".join(parts))

    def answered(self, connection: _Connection, answers: Sequence[tuple[bytes, bytes]]) -> None:
        """Record the answers; in a closed loop, send as many new spends."""
        at = time.monotonic()
        samples = self._samples
        for stan, code in answers:
            started = self._open.pop(stan, None)
            if started is not None:
                samples.started.append(started)
                samples.done.append(at)
                if code == APPROVED:
                    samples.approved += 1
                else:
                    samples.refused += 1
        if self._running and not self._per_second:
            self.send(connection, [at] * len(answers))
        elif not self._running and not self._open:
            self._idle.set()

    async def _pace(self) -> None:
        schedule = Schedule(self._per_second, time.monotonic())
        turn = 0
        while self._running:
            await asyncio.sleep(schedule.next_at - time.monotonic())
            now = time.monotonic()
            due = schedule.take_due(now)
            self._samples.lateness += [now - at for at in due]
            if due:
                turn += 1
                self.send(self._connections[turn % self._count], due)

    def _stamped(self) -> Stamp:
        second = int(time.time())
        if second != self._second:
            self._second, self._stamp = second, stamp(second * 1000)
        return self._stamp


class _Connection(asyncio.Protocol):
    """One connection of a network; answers go to its ``WireLoad``."""

    def __init__(self, load: WireLoad) -> None:
        self._load = load
        self._cutter = FrameCutter()
        self._places: dict[bytes, tuple[int, int]] = {}
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def data_received(self, data: bytes) -> None:
        self._load.answered(
            self,
            [self._read(payload) for payload in self._cutter.feed(data) if not isinstance(payload, BadFrame)],
        )

    def _read(self, payload: bytes) -> tuple[bytes, bytes]:
        """The trace number and the response code. All variable-length fields before them (DE2, DE32) keep one
        length throughout a benchmark, so the bitmap determines the offsets."""
        bitmap = payload[MTI_CHARS : MTI_CHARS + BITMAP_CHARS]
        known = self._places.get(bitmap)
        if known is None:
            found = places(ISO87_ASCII.decode(payload))
            known = self._places[bitmap] = (found[11][0], found[39][0])
        stan, code = known
        return payload[stan : stan + 6], payload[code : code + 2]
