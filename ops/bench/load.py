"""Spends handed to an in-process decider in a closed loop: a fixed number is always under way."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Final

from actors.ids import new_id_beside
from engine.commands import Authorize, WireIdentity
from engine.iso8583.elements import retrieval_reference, transmission_time
from engine.iso8583.identity import AUTHORIZATION, command_key
from engine.replies import Answer, Reply

Submit = Callable[[Authorize], Awaitable[Reply]]
APPROVED: Final = "00"
_STANS: Final = 1_000_000


class ClosedLoop:
    """``start``, then ``stop``, once each."""

    def __init__(self, submit: Submit, cards: Sequence[str], sale: dict[str, Any], in_flight: int) -> None:
        """``cards``: ids to draw from; ``sale``: the fields that all spends share."""
        self._submit = submit
        self._commands = spends(cards, sale)
        self._started: list[float] = []
        self._done: list[float] = []
        self._approved = 0
        self._running = True
        self._tasks = [asyncio.create_task(self._work()) for _ in range(in_flight)]

    async def stop(self) -> dict[str, Any]:
        """Let what is under way end; the instants (monotonic seconds) of every spend, and how many were
        approved and not."""
        self._running = False
        await asyncio.gather(*self._tasks)
        refused = len(self._done) - self._approved
        return {
            "started": self._started,
            "done": self._done,
            "approved": self._approved,
            "refused": refused,
        }

    async def _work(self) -> None:
        while self._running:
            command = next(self._commands)
            started = time.monotonic()
            reply = await self._submit(command)
            self._started.append(started)
            self._done.append(time.monotonic())
            self._approved += isinstance(reply, Answer) and reply.response_code == APPROVED


def spends(cards: Sequence[str], sale: dict[str, Any]) -> Iterator[Authorize]:
    """Endless spends on cards drawn uniformly; every wire identity is new on this machine."""
    draw = random.Random(len(cards))
    acquirer_id = str(900_000_000 + os.getpid())
    for number in itertools.count(random.randrange(_STANS)):
        card_id = cards[draw.randrange(len(cards))]
        stan, at_ms = f"{number % _STANS:06d}", time.time_ns() // 1_000_000
        wire = WireIdentity(acquirer_id, stan, transmission_time(at_ms), retrieval_reference(at_ms, stan))
        key = command_key(wire, AUTHORIZATION)
        yield Authorize(
            id=new_id_beside(card_id), command_key=key, card_id=card_id, fingerprint=key, wire=wire, **sale
        )
