"""Load on many cards at once, and what its acquirer knows about it afterwards."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.api.driver import Caller
from tests.conformance.peer import Document, decode
from tests.integration.acquirer import Acquirer, purchase
from tests.integration.stack import Stack

# Approved, or in time that nobody could say.
ANSWERS = {"00", "91"}


@dataclass
class Spend:
    """A message and its answers."""

    card_id: str
    request: Document
    answer: bytes
    response_code: str


@dataclass
class Load:
    """One spend after the other on each of many cards, each by its own worker."""

    acquirer: Acquirer
    plastics: dict[str, dict[str, str]]
    spends: list[Spend] = field(default_factory=list)
    approved: Counter[str] = field(default_factory=Counter)
    """Approvals by card."""

    async def work(self, card_id: str) -> None:
        """Spend for ever."""
        while True:
            request = purchase(self.plastics[card_id])
            answer = await self.acquirer.exchange(request)
            response_code = decode(answer)["39"]
            self.spends.append(Spend(card_id, request, answer, response_code))
            self.approved[card_id] += response_code == "00"

    def all_approved_again(self) -> Any:
        """A condition: since this call, every card has had a spend approved that was also sent since."""
        before = self.approved.copy()
        # The answer under way when this is called may be an old one, the one after it is not.
        return lambda: all(self.approved[card_id] >= before[card_id] + 2 for card_id in self.plastics)


@asynccontextmanager
async def load(stack: Stack, demo: Caller, acquirer: Acquirer, cards: int = 24) -> AsyncIterator[Load]:
    """Load until the block ends; the last spend of each card is then left to finish."""
    programme = await demo.programme()
    product, holder = await demo.product(programme), await demo.cardholder(programme)
    made = await asyncio.gather(*(demo.card(product, holder) for _ in range(cards)))
    await asyncio.gather(*(demo.load(card, "100000.00") for card in made))
    running = Load(acquirer, await stack.plastics(*made))
    workers = [asyncio.create_task(running.work(card["id"])) for card in made]
    try:
        yield running
    finally:
        for worker in workers:
            worker.cancel()
        results = await asyncio.gather(*workers, return_exceptions=True)
    assert not [result for result in results if not isinstance(result, asyncio.CancelledError)]


async def assert_nothing_lost(stack: Stack, running: Load) -> None:
    """Each approval that was acknowledged is in the books once; no other answer than 00 and 91 was given;
    repeats of every message get the acknowledged bytes, or the truth about what was answered with 91."""
    assert {spend.response_code for spend in running.spends} <= ANSWERS
    repeats = await asyncio.gather(
        *(running.acquirer.exchange(spend.request | {"t": "0101"}) for spend in running.spends)
    )
    for spend, repeat in zip(running.spends, repeats, strict=True):
        assert decode(repeat)["39"] == "00"
        assert repeat == spend.answer or spend.response_code == "91"
    rows = await stack.fetch(
        "SELECT t.card_id::text, j.command::jsonb #>> '{wire,rrn}' AS rrn, h.state"
        " FROM transactions t JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq"
        " JOIN holds h ON h.id = t.hold_id WHERE t.card_id = ANY($1::uuid[])",
        list(running.plastics),
    )
    asked = Counter((spend.card_id, spend.request["37"]) for spend in running.spends)
    booked = Counter((row["card_id"], row["rrn"]) for row in rows)
    # Spends that the end of the load cut off may be in the books too, once.
    assert asked - booked == Counter()
    assert set(booked.values()) == {1}
    await stack.assert_books()
