"""Spends for an in-process decider: a closed loop (fixed number in flight) or an open loop (fixed rate)."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from actors.ids import new_id_beside
from engine.commands import Authorize, CardCommand, WireIdentity
from engine.iso8583.elements import retrieval_reference, transmission_time
from engine.iso8583.identity import AUTHORIZATION, command_key
from engine.replies import Reply, WireAnswer

Submit = Callable[[CardCommand], Awaitable[Reply]]
APPROVED: Final = "00"
_STANS: Final = 1_000_000
_DRAWS: Final = 10_007
# One counter for all spends of the process; two counters could produce the same number.
_numbers: Final = itertools.count(random.randrange(_STANS))


class Loop:
    """Base of both loops. Call ``start``, then ``stop``, once each."""

    def __init__(self, submit: Submit, cards: Sequence[str], sale: dict[str, Any], *draw: Any) -> None:
        """``cards``: ids to draw from; ``sale``: the fields that all spends share; ``draw``: the arguments of
        ``spends``."""
        self._submit = submit
        self._commands = spends(cards, sale, *draw)
        self._started: list[float] = []
        self._done: list[float] = []
        self._lateness: list[float] = []
        self._approved = 0
        self._running = True
        self._tasks: set[asyncio.Task[None]] = set()

    async def stop(self) -> dict[str, Any]:
        """Wait for open spends; returns the instants (monotonic seconds) of all spends, and the numbers
        approved and refused."""
        self._running = False
        while self._tasks:
            await asyncio.gather(*self._tasks)
        refused = len(self._done) - self._approved
        return {
            "started": self._started,
            "done": self._done,
            "lateness": self._lateness,
            "approved": self._approved,
            "refused": refused,
        }

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _spend(self, started: float) -> None:
        reply = await self._submit(next(self._commands))
        self._started.append(started)
        self._done.append(time.monotonic())
        self._approved += isinstance(reply, WireAnswer) and reply.response_code == APPROVED


class ClosedLoop(Loop):
    """A closed loop: ``in_flight`` spends are always open."""

    def __init__(
        self,
        submit: Submit,
        cards: Sequence[str],
        sale: dict[str, Any],
        in_flight: int,
        *draw: Any,
    ) -> None:
        super().__init__(submit, cards, sale, *draw)
        for _ in range(in_flight):
            self._spawn(self._work())

    async def _work(self) -> None:
        while self._running:
            await self._spend(time.monotonic())


class OpenLoop(Loop):
    """An open loop: ``per_second`` spends at fixed instants. Latencies count from those instants, also when
    the loop sends late."""

    def __init__(
        self,
        submit: Submit,
        cards: Sequence[str],
        sale: dict[str, Any],
        per_second: float,
        *draw: Any,
    ) -> None:
        super().__init__(submit, cards, sale, *draw)
        self._interval = 1 / per_second
        self._spawn(self._pace())

    async def _pace(self) -> None:
        due = time.monotonic()
        while self._running:
            await asyncio.sleep(due - time.monotonic())
            now = time.monotonic()
            while due <= now:
                self._lateness.append(now - due)
                self._spawn(self._spend(due))
                due += self._interval


def loop_of(
    submit: Submit,
    cards: Sequence[str],
    sale: dict[str, Any],
    *,
    in_flight: int = 0,
    per_second: float = 0.0,
    weights: Sequence[float] | None = None,
    in_turn: bool = False,
) -> Loop:
    """The requested loop: an open one if ``per_second`` is given, else a closed one."""
    if per_second:
        return OpenLoop(submit, cards, sale, per_second, weights, in_turn)
    return ClosedLoop(submit, cards, sale, in_flight, weights, in_turn)


def spends(
    cards: Sequence[str],
    sale: dict[str, Any],
    weights: Sequence[float] | None = None,
    in_turn: bool = False,
) -> Iterator[Authorize]:
    """Endless spends on cards drawn by weight, uniformly, or ``in_turn``; every wire identity is new on this
    machine."""
    # Drawn in advance: a generator that shares the processor must be cheap.
    order = cards if in_turn else random.Random(len(cards)).choices(cards, weights, k=_DRAWS)
    drawn = itertools.cycle(order)
    acquirer_id = str(900_000_000 + os.getpid())
    for number in _numbers:
        card_id = next(drawn)
        stan, at_ms = f"{number % _STANS:06d}", time.time_ns() // 1_000_000
        wire = WireIdentity(acquirer_id, stan, transmission_time(at_ms), retrieval_reference(at_ms, stan))
        key = command_key(wire, AUTHORIZATION)
        yield Authorize(
            id=new_id_beside(card_id), command_key=key, card_id=card_id, fingerprint=key, wire=wire, **sale
        )
