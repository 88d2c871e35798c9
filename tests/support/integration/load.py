"""Concurrent spends on many cards, and a check that no acknowledged one is lost."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.api.driver import Caller
from tests.support.conformance.peer import Document, decode
from tests.support.integration.acquirer import Acquirer, purchase
from tests.support.integration.stack import SECONDS_MAX, Stack

# Approved, or no decision in time.
ANSWERS = {"00", "91"}


@dataclass
class Spend:
    """A message and its answer."""

    card_id: str
    request: Document
    answer: bytes
    response_code: str


@dataclass
class Load:
    """One worker for each card spends on it repeatedly."""

    acquirer: Acquirer
    plastics: dict[str, dict[str, str]]
    spends: list[Spend] = field(default_factory=list)
    approved: Counter[str] = field(default_factory=Counter)
    """Approvals by card."""

    async def work(self, card_id: str) -> None:
        """Spend until cancelled."""
        while True:
            request = purchase(self.plastics[card_id])
            answer = await self.acquirer.exchange_bytes(request)
            response_code = decode(answer)["39"]
            self.spends.append(Spend(card_id, request, answer, response_code))
            self.approved[card_id] += response_code == "00"

    def new_approval_on_every_card(self) -> Any:
        """A condition: every card had a spend approved that was sent after this call."""
        before = self.approved.copy()
        # The next answer may belong to a message sent before this call; the one after it does not.
        return lambda: all(self.approved[card_id] >= before[card_id] + 2 for card_id in self.plastics)


@asynccontextmanager
async def load(stack: Stack, demo: Caller, acquirer: Acquirer, cards: int = 24) -> AsyncIterator[Load]:
    """Spend until the block ends, then cancel the workers."""
    programme = await demo.programme()
    product, holder = await demo.product(programme), await demo.cardholder(programme)
    made = await asyncio.gather(*(demo.card(product, holder) for _ in range(cards)))
    await asyncio.gather(*(demo.load(card, "100000.00") for card in made))
    running = Load(acquirer, await stack.card_data(*made))
    workers = [asyncio.create_task(running.work(card["id"])) for card in made]
    try:
        yield running
    finally:
        for worker in workers:
            worker.cancel()
        results = await asyncio.gather(*workers, return_exceptions=True)
    assert not [result for result in results if not isinstance(result, asyncio.CancelledError)]


async def assert_no_loss(stack: Stack, running: Load) -> None:
    """Each acknowledged approval is booked once, and all answers were 00 or 91. Repeats of each message get
    the acknowledged bytes. Where the first answer was 91 they get an approval, or 91 after the edge has
    reversed the message: a late approval then holds nothing."""
    assert {spend.response_code for spend in running.spends} <= ANSWERS
    await asyncio.gather(*(assert_repeats(stack, running, card_id) for card_id in running.plastics))
    rows = await stack.fetch(
        "SELECT t.card_id::text, j.command::jsonb #>> '{wire,rrn}' AS rrn, t.held_minor"
        " FROM transactions t JOIN journal j ON j.actor_id = t.card_id AND j.seq = t.seq"
        " JOIN holds h ON h.id = t.hold_id WHERE t.card_id = ANY($1::uuid[])",
        list(running.plastics),
    )
    late = {(card_id, rrn) for card_id in running.plastics for rrn in await reversed_late(stack, card_id)}
    acknowledged = {
        (spend.card_id, spend.request["37"]) for spend in running.spends if spend.response_code == "00"
    }
    assert not late & acknowledged
    sent = Counter((spend.card_id, spend.request["37"]) for spend in running.spends)
    held = {(row["card_id"], row["rrn"]): row["held_minor"] for row in rows}
    booked = Counter((row["card_id"], row["rrn"]) for row in rows)
    # Spends that were cancelled at the end of the load may be booked too, once each.
    assert set(sent - booked) <= late
    assert set(booked.values()) == {1}
    assert not any(held.get(spend) for spend in late)
    await stack.assert_books()


async def assert_repeats(stack: Stack, running: Load, card_id: str) -> None:
    """The messages of one card are repeated one after the other, each until it gets a decision, or until its
    late reversal is executed."""
    for spend in running.spends:
        if spend.card_id == card_id:
            repeat = await decided_repeat(stack, running.acquirer, spend)
            if repeat is not None:
                response_code = decode(repeat)["39"]
                assert response_code == "00", f"a repeat got {response_code} after {spend.response_code}"
                assert repeat == spend.answer or spend.response_code == "91"


async def decided_repeat(stack: Stack, acquirer: Acquirer, spend: Spend) -> bytes | None:
    """The first answer to a repeat of ``spend`` that is not 91. A busy edge may answer any message with 91,
    and a network then repeats it. ``None`` if the edge has reversed the message, because its own first answer
    was a 91 at the deadline: every repeat gets 91 from then on."""
    async with asyncio.timeout(SECONDS_MAX):
        while True:
            answer = await acquirer.exchange_bytes(spend.request | {"t": "0101"})
            if decode(answer)["39"] != "91":
                return answer
            if spend.response_code == "91" and spend.request["37"] in await reversed_late(
                stack, spend.card_id
            ):
                return None


async def reversed_late(stack: Stack, card_id: str) -> set[str]:
    """The reference numbers (DE37) of the messages whose late reversal the card has executed. 21 answers a
    late reversal of an approval that stands."""
    rows = await stack.fetch(
        "SELECT command::jsonb #>> '{wire,rrn}' AS rrn FROM journal WHERE actor_id = $1::uuid"
        " AND command::jsonb ->> 'command' = 'reverse' AND (command::jsonb -> 'late')::bool"
        " AND reply::jsonb ->> 'response_code' <> '21'",
        card_id,
    )
    return {row["rrn"] for row in rows}
