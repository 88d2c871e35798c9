"""The expiry sweep: closes holds past their expiry in the background.

Expired holds no longer count, because every decision compares them with the current time. The sweep updates
their rows and statuses. It works in small steps, so that ten thousand holds that expire together do not delay
decisions.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Collection

from actors.ids import new_id_beside
from actors.journal.contract import Journal
from actors.submission import Submission
from engine.commands import Expire
from engine.limits import HOLD_SWEEP_BUSY_SECONDS, HOLD_SWEEP_CARDS_MAX, HOLD_SWEEP_SECONDS, REST_DEADLINE_MS
from engine.replies import Reply

Execute = Callable[[list[Submission]], Awaitable[list[Reply]]]


class ExpirySweeper:
    """Sweeps the shards of one host."""

    def __init__(self, journal: Journal, execute: Execute, shards: Callable[[], Collection[int]]) -> None:
        self._journal = journal
        self._execute = execute
        self._shards = shards

    async def sweep(self) -> int:
        """Close the expired holds of at most ``HOLD_SWEEP_CARDS_MAX`` cards; returns the number of cards."""
        shards = self._shards()
        cards = await self._journal.find_due_cards(shards, HOLD_SWEEP_CARDS_MAX) if shards else []
        if cards:
            await self._execute([Submission(_expire(card), REST_DEADLINE_MS) for card in cards])
        return len(cards)

    async def step(self) -> float:
        """Sweep once; returns the seconds until the next sweep, fewer while expired holds remain."""
        swept = await self.sweep()
        return HOLD_SWEEP_BUSY_SECONDS if swept >= HOLD_SWEEP_CARDS_MAX else HOLD_SWEEP_SECONDS


def _expire(card_id: str) -> Expire:
    return Expire(id=new_id_beside(card_id), command_key=os.urandom(16), card_id=card_id)
