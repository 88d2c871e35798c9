"""A generator of more authorizations than the installation can decide, in a process of its own (G14).

It uses as little processor time as possible: messages are encoded before a phase, and answers are decoded
after it. It reads a target and then phases as lines of JSON, and answers each phase with one line.
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

from engine.iso8583.framing import BadFrame, FrameCutter
from engine.iso8583.profiles import ISO87_ASCII
from engine.iso8583.respond import DEADLINE_EXCEEDED, approves
from ops.chaos.traffic.shoppers import Plastic, Terminal
from ops.histories.operations import History

NICENESS: Final = 1
PREPARED_AT_ONCE: Final = 64
TICK_SECONDS: Final = 0.01
READ_BYTES: Final = 1 << 18


class FloodPhase(msgspec.Struct, kw_only=True):
    """One phase of load: either a fixed number in flight or a fixed rate."""

    seconds: float
    in_flight: int = 0
    per_second: float = 0.0
    prepare: int = 0
    """The number of messages to encode before the phase."""
    late_seconds: float = 1.0
    """How long to wait for answers after the phase."""


class FloodTarget(msgspec.Struct):
    """The edge's address and the cards."""

    host: str
    port: int
    plastics: list[Plastic]


class PhaseResult(msgspec.Struct, kw_only=True):
    """The result of a phase. Approvals count only if they arrived before its end."""

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
    """The generator's own delay: an answer may have arrived this much earlier than recorded."""


class AnswerRecorder(asyncio.Protocol):
    """Records frames with their time of arrival."""

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
    """A connection that offers a phase's load."""

    def __init__(self, target: FloodTarget) -> None:
        self._target = target
        # Terminals only build the messages here; no shopper uses them.
        self._terminals = [
            Terminal(None, History(), plastic, random.Random(number))  # type: ignore[arg-type]
            for number, plastic in enumerate(target.plastics)
        ]
        self._ready: list[tuple[str, bytes]] = []
        self._sent: dict[str, float] = {}
        self._made = 0
        self._lags: list[float] = []

    async def run(self, phase: FloodPhase) -> PhaseResult:
        """Run ``phase`` on a new connection."""
        self._prepare(phase.prepare)
        self._sent.clear()
        self._lags.clear()
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(AnswerRecorder, self._target.host, self._target.port)
        began = time.monotonic()
        try:
            while (elapsed := time.monotonic() - began) < phase.seconds:
                if phase.per_second:
                    due = int(phase.per_second * elapsed) - len(self._sent)
                else:
                    due = phase.in_flight - (len(self._sent) - connection.frames)
                self._send(connection, due)
                await self._pause(TICK_SECONDS if phase.per_second else 0.001)
            # After a delay of the generator, the missing part of the offered load is sent at once.
            self._send(connection, int(phase.per_second * phase.seconds) - len(self._sent))
            ended = time.monotonic()
            await self._all_answered(connection, ended + phase.late_seconds)
        finally:
            if connection.transport is not None:
                connection.transport.abort()
        return self._result(connection.arrived, began, ended)

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
            message = self._terminals[self._made % len(self._terminals)].unsent_request()
            self._ready.append((message.fields[11], ISO87_ASCII.framing.frame(ISO87_ASCII.encode(message))))

    def _result(self, arrived: Iterable[tuple[float, bytes]], began: float, ended: float) -> PhaseResult:
        approvals: list[float] = []
        refusals: list[float] = []
        approved = other = answered = 0
        for at, payload in arrived:
            fields = ISO87_ASCII.decode(payload).fields
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
    """The p99 of ``values``; 0 if there are none."""
    return sorted(values)[min(len(values) - 1, int(0.99 * len(values)))] if values else 0.0


async def main() -> None:
    """Read the target and then phases from standard input; write each result to standard output."""
    with suppress(OSError):
        os.nice(NICENESS)
    flood = FloodConnection(msgspec.json.decode(sys.stdin.buffer.readline(), type=FloodTarget))
    while line := await asyncio.to_thread(sys.stdin.buffer.readline):
        result = await flood.run(msgspec.json.decode(line, type=FloodPhase))
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    asyncio.run(main())
