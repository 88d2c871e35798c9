"""More authorizations than can be decided, from a process of its own (G14).

Whoever makes too much work must not take the machine from those who do it: messages are written beforehand,
answers are only noted with their time while they come in, and read when everything is over. What to do comes
in lines of JSON, and each is answered with one.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

import msgspec

from engine.iso8583.codec import decode, encode
from engine.iso8583.framing import BadFrame, FrameCutter, frame
from engine.iso8583.respond import DEADLINE_EXCEEDED, approves
from ops.chaos.traffic.shoppers import Plastic, Terminal
from ops.histories.operations import History

NICENESS: Final = 1
PREPARED_AT_ONCE: Final = 64
TICK_SECONDS: Final = 0.01
READ_BYTES: Final = 1 << 18


class FloodPhase(msgspec.Struct, kw_only=True):
    """What to do for a while: so many open at any time, or so many a second whatever becomes of them."""

    seconds: float
    in_flight: int = 0
    per_second: float = 0.0
    prepare: int = 0
    """Messages to write before it begins."""
    late_seconds: float = 1.0
    """How long answers are waited for afterwards."""


class FloodTarget(msgspec.Struct):
    """Where, with which cards, and what one after the other."""

    host: str
    port: int
    plastics: list[Plastic]


class PhaseResult(msgspec.Struct, kw_only=True):
    """What came of a phase. Only what was approved while it lasted counts as such."""

    seconds: float
    offered: int
    approved: int
    refused: int
    """Answered with 91."""
    other: int
    unanswered: int
    refusal_ms_p99: float
    approval_ms_p99: float
    lag_ms_p99: float
    """How late the generator itself came round: by so much an answer may have been there before it was
    seen."""


class AnswerRecorder(asyncio.Protocol):
    """Notes what comes, and when; nothing more."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.arrived: list[tuple[float, bytes]] = []
        self.frames = 0
        self._cutter = FrameCutter()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        for payload in self._cutter.feed(data):
            self.frames += 1
            if not isinstance(payload, BadFrame):
                self.arrived.append((now, payload))


class FloodConnection:
    """One connection full of authorizations."""

    def __init__(self, plan: FloodTarget) -> None:
        self._plan = plan
        # Tills know how a sale is said; nobody shops at these.
        self._terminals = [
            Terminal(None, History(), plastic, random.Random(number))  # type: ignore[arg-type]
            for number, plastic in enumerate(plan.plastics)
        ]
        self._ready: list[tuple[str, bytes]] = []
        self._sent: dict[str, float] = {}
        self._made = 0
        self._lags: list[float] = []

    async def run(self, phase: FloodPhase) -> PhaseResult:
        """Have ``phase`` happen on a connection of its own."""
        self._prepare(phase.prepare)
        self._sent.clear()
        self._lags.clear()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(AnswerRecorder, self._plan.host, self._plan.port)
        began = time.monotonic()
        try:
            while (elapsed := time.monotonic() - began) < phase.seconds:
                if phase.per_second:
                    due = int(phase.per_second * elapsed) - len(self._sent)
                else:
                    due = phase.in_flight - (len(self._sent) - connection.frames)
                self._send(connection, due)
                await self._pause(TICK_SECONDS if phase.per_second else 0.001)
            # A generator that stood still has not offered less.
            self._send(connection, int(phase.per_second * phase.seconds) - len(self._sent))
            ended = time.monotonic()
            await self._all_answered(connection, ended + phase.late_seconds)
        finally:
            if connection.transport is not None:
                connection.transport.abort()
        return self._heard(connection.arrived, began, ended)

    async def _pause(self, seconds: float) -> None:
        due = time.monotonic() + seconds
        await asyncio.sleep(seconds)
        self._lags.append(max(0.0, time.monotonic() - due))

    async def _all_answered(self, connection: AnswerRecorder, until: float) -> None:
        while True:
            if connection.frames >= len(self._sent) or time.monotonic() > until:
                return
            await asyncio.sleep(TICK_SECONDS)

    def _send(self, connection: AnswerRecorder, count: int) -> None:
        if count <= 0 or connection.transport is None:
            return
        self._prepare(count)
        now = time.monotonic()
        batch, self._ready = self._ready[:count], self._ready[count:]
        self._sent |= dict.fromkeys((stan for stan, _ in batch), now)
        connection.transport.write(b"".join(framed for _, framed in batch))

    def _prepare(self, count: int) -> None:
        while len(self._ready) < count:
            self._made += 1
            message = self._terminals[self._made % len(self._terminals)].request()
            self._ready.append((message.fields[11], frame(encode(message))))

    def _heard(self, arrived: Iterable[tuple[float, bytes]], began: float, ended: float) -> PhaseResult:
        approvals: list[float] = []
        refusals: list[float] = []
        approved = other = answered = 0
        for at, payload in arrived:
            fields = decode(payload).fields
            sent = self._sent.get(fields[11])
            if sent is None:
                continue
            answered += 1
            if approves(fields[39]):
                approvals.append(at - sent)
                approved += at <= ended
            elif fields[39] == DEADLINE_EXCEEDED:
                refusals.append(at - sent)
            else:
                other += 1
        return PhaseResult(
            seconds=ended - began,
            offered=len(self._sent),
            approved=approved,
            refused=len(refusals),
            other=other,
            unanswered=len(self._sent) - answered,
            refusal_ms_p99=1000 * p99(refusals),
            approval_ms_p99=1000 * p99(approvals),
            lag_ms_p99=1000 * p99(self._lags),
        )


def p99(values: list[float]) -> float:
    """0 of nothing."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))] if values else 0.0


async def main() -> None:
    """The plan, then phases, from the standard input; an answer to each on the standard output."""
    with suppress(OSError):
        os.nice(NICENESS)
    flood = FloodConnection(msgspec.json.decode(sys.stdin.buffer.readline(), type=FloodTarget))
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        heard = await flood.run(msgspec.json.decode(line, type=FloodPhase))
        sys.stdout.buffer.write(msgspec.json.encode(heard) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
