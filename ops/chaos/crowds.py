"""Too many: clients that say a byte in five seconds, more authorizations than can be decided (G13, G14)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Final
from urllib.parse import urlsplit

from engine.iso8583.acquirer import authorization_request
from engine.iso8583.codec import decode, encode
from engine.iso8583.framing import BadFrame, FrameCutter, frame
from ops.chaos.errors import NotInjectedError
from ops.chaos.faults import NORMAL_SECONDS_MAX, Fault, Outcome
from ops.chaos.shoppers import Till
from ops.chaos.stage import Stage

SLOW_CLIENTS: Final = 500
BYTE_SECONDS: Final = 5.0
CLOSED_SECONDS_MAX: Final = 15.0
SLOWER_MAX: Final = 2.0
PEAK_SECONDS: Final = 3.0
PEAK_IN_FLIGHT: Final = 128
OVERLOAD_SECONDS: Final = 4.0
OVERLOAD: Final = 4
GOODPUT_MIN: Final = 0.8
TICK_SECONDS: Final = 0.02
_HTTP: Final = b"POST /v1/simulated-loads HTTP/1.1\r\nHost: x\r\nContent-Length: 500\r\n\r\n{"
_WIRE: Final = b"\x00\xa0010"


async def slow_clients(stage: Stage) -> Outcome:
    """Half of them at the API, half at the edge. The figure is how long the most patient one was kept."""
    before = await _p99(stage, 3.0)
    http, wire = urlsplit(stage.record["base_url"]), stage.record["iso8583"]
    addresses = [(http.hostname or "", http.port or 80), (wire["host"], wire["port"])]
    began = time.monotonic()
    clients = [
        asyncio.create_task(_dawdle(*addresses[number % 2], _HTTP if number % 2 == 0 else _WIRE))
        for number in range(SLOW_CLIENTS)
    ]
    await asyncio.sleep(1.0)
    during = await _p99(stage, 5.0)
    kept = await asyncio.gather(*clients)
    if len(kept) < SLOW_CLIENTS or time.monotonic() - began < 1.0:
        raise NotInjectedError("they did not connect")
    outcome = Outcome(max(kept))
    outcome.expect(
        during <= max(SLOWER_MAX * before, 0.05), f"p99 {1000 * before:.0f} → {1000 * during:.0f} ms"
    )
    return outcome


async def _dawdle(host: str, port: int, beginning: bytes) -> float:
    """How long a slow client is tolerated."""
    reader, writer = await asyncio.open_connection(host, port)
    began = time.monotonic()
    hung_up = asyncio.create_task(_hung_up(reader))
    try:
        for byte in beginning + b" " * 20:
            with suppress(ConnectionError):
                writer.write(bytes((byte,)))
            done, _ = await asyncio.wait({hung_up}, timeout=BYTE_SECONDS)
            if done:
                break
        return time.monotonic() - began
    finally:
        hung_up.cancel()
        writer.transport.abort()


async def _hung_up(reader: asyncio.StreamReader) -> None:
    """Returns when the other side has closed, whatever it says before."""
    with suppress(ConnectionError):
        while await reader.read(4096):
            pass


async def _p99(stage: Stage, seconds: float) -> float:
    """Of the decisions in the next seconds."""
    began = time.monotonic()
    await asyncio.sleep(seconds)
    waits = sorted(
        (each.ended or 0.0) - each.began for each in stage.crowd.history.since(began) if each.ended
    )
    if not waits:
        raise NotInjectedError("nobody asked anything meanwhile")
    return waits[min(len(waits) - 1, int(0.99 * len(waits)))]


class Flood:
    """Authorizations on one connection, as fast as they are wanted; answers are counted and timed."""

    def __init__(self, tills: Sequence[Till]) -> None:
        self._tills = tills
        self._next = 0
        self._ready: deque[tuple[str, bytes]] = deque()
        self._sent: dict[str, float] = {}
        self._connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self._listening: asyncio.Task[None] | None = None
        self.approved = 0
        self.refusals: list[float] = []
        """Seconds that each refusal took."""

    async def open(self, address: tuple[str, int]) -> None:
        self._connection = await asyncio.open_connection(*address)
        self._listening = asyncio.create_task(self._listen(self._connection[0]))

    async def close(self) -> None:
        if self._listening is not None:
            self._listening.cancel()
        if self._connection is not None:
            self._connection[1].transport.abort()

    @property
    def in_flight(self) -> int:
        return len(self._sent)

    def prepare(self, count: int) -> None:
        """Have so many messages ready: making them must not take the machine from those who answer them."""
        for _ in range(count - len(self._ready)):
            self._next += 1
            till = self._tills[self._next % len(self._tills)]
            message = authorization_request(till.sale(), till.references())
            self._ready.append((message.fields[11], frame(encode(message))))

    def send(self, count: int) -> None:
        """So many more."""
        assert self._connection is not None
        self.prepare(count)
        now = time.monotonic()
        batch = [self._ready.popleft() for _ in range(count)]
        self._sent |= dict.fromkeys((stan for stan, _ in batch), now)
        self._connection[1].write(b"".join(framed for _, framed in batch))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        cutter = FrameCutter()
        while data := await reader.read(1 << 16):
            now = time.monotonic()
            for payload in cutter.feed(data):
                if isinstance(payload, BadFrame):
                    continue
                fields = decode(payload).fields
                sent = self._sent.pop(fields[11], None)
                if sent is not None and fields[39] == "00":
                    self.approved += 1
                elif sent is not None:
                    self.refusals.append(now - sent)


async def overload(stage: Stage) -> Outcome:
    """Four times what can be decided. The figure is what is still decided, as a part of the peak."""
    address = (stage.record["iso8583"]["host"], stage.record["iso8583"]["port"])
    flood = Flood(stage.crowd.tills)
    await flood.open(address)
    try:
        peak = await _closed(flood)
        if peak < 10:
            raise NotInjectedError("nothing was decided at all")
        offered, goodput = await _open(flood, OVERLOAD * peak)
    finally:
        await flood.close()
    began = time.monotonic()
    await stage.back()
    outcome = Outcome(goodput / peak)
    outcome.expect(goodput >= GOODPUT_MIN * peak, f"{goodput:.0f}/s of {peak:.0f}/s, {offered:.0f}/s offered")
    outcome.expect(offered >= 2 * peak, f"only {offered:.0f}/s could be offered against {peak:.0f}/s")
    normal = time.monotonic() - began
    outcome.expect(normal <= NORMAL_SECONDS_MAX, f"normal again after {normal:.1f} s")
    return outcome


async def _closed(flood: Flood) -> float:
    """Decisions per second with as many in flight as fill every batch."""
    began, before = time.monotonic(), flood.approved
    while time.monotonic() - began < PEAK_SECONDS:
        flood.send(max(0, PEAK_IN_FLIGHT - flood.in_flight))
        await asyncio.sleep(0.002)
    return (flood.approved - before) / (time.monotonic() - began)


async def _open(flood: Flood, per_second: float) -> tuple[float, float]:
    """What was offered and what was decided, each second."""
    flood.prepare(int(per_second * OVERLOAD_SECONDS))
    began, before, sent = time.monotonic(), flood.approved, 0
    while (elapsed := time.monotonic() - began) < OVERLOAD_SECONDS:
        due = int(per_second * elapsed) - sent
        flood.send(due)
        sent += due
        await asyncio.sleep(TICK_SECONDS)
    return sent / elapsed, (flood.approved - before) / elapsed


TOO_MANY: Final = (
    Fault("G13", f"{SLOW_CLIENTS} clients at a byte in 5 s", "kept, s", CLOSED_SECONDS_MAX, slow_clients),
    Fault("G14", "four times what can be decided", "part of the peak", None, overload),
)
