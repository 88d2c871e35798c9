"""Loops of spends: the number in flight, the schedule, and the choice of cards."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter

import pytest

from engine.commands import CardCommand
from engine.replies import NotExecuted, Reply, WireAnswer
from ops.bench.load import ClosedLoop, OpenLoop, loop_of, spends
from tests.support.ops.bench.twin import SALE

CARDS = [f"01a20004-c598-7778-bff4-5a1c14fef4{number:02x}" for number in range(20)]


async def approve(command: CardCommand) -> Reply:
    await asyncio.sleep(0)
    return WireAnswer("00", command.id)


async def test_a_closed_loop_keeps_its_number_in_flight() -> None:
    under_way, most = 0, 0

    async def submit(command: CardCommand) -> Reply:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return WireAnswer("00" if under_way % 2 else "51", command.id)

    loop = loop_of(submit, CARDS, SALE, in_flight=5)
    assert isinstance(loop, ClosedLoop)
    for _ in range(10):
        await asyncio.sleep(0)
    outcome = await loop.stop()
    assert most == 5
    assert outcome["approved"] + outcome["refused"] == len(outcome["done"]) == len(outcome["started"])
    assert outcome["lateness"] == []


async def test_an_open_loop_sends_on_schedule_without_waiting() -> None:
    stuck, enough, arrived = asyncio.Event(), asyncio.Event(), itertools.count(1)

    async def submit(_command: CardCommand) -> Reply:
        if next(arrived) == 20:
            enough.set()
        await stuck.wait()
        return NotExecuted("deadline")

    loop = loop_of(submit, CARDS, SALE, per_second=1_000.0)
    assert isinstance(loop, OpenLoop)
    await enough.wait()
    stopping = asyncio.create_task(loop.stop())
    await asyncio.sleep(0)
    stuck.set()
    outcome = await stopping
    assert len(outcome["started"]) == len(outcome["lateness"]) >= 20, "nobody waited for an answer"
    due = sorted(outcome["started"])
    steps = [after - before for before, after in itertools.pairwise(due)]
    assert steps == pytest.approx([0.001] * len(steps)), "latencies count from fixed instants"
    assert all(late >= 0 for late in outcome["lateness"])
    assert (outcome["approved"], outcome["refused"]) == (0, len(due))


def test_cards_are_drawn_by_weight_or_in_turn() -> None:
    weights = [0.5, *[0.5 / 19] * 19]
    counts = Counter(command.card_id for command in itertools.islice(spends(CARDS, SALE, weights), 10_007))
    assert 4_700 <= counts[CARDS[0]] <= 5_300
    in_turn = [command.card_id for command in itertools.islice(spends(CARDS, SALE, None, True), 40)]
    assert in_turn == CARDS * 2


def test_every_spend_has_its_own_identity() -> None:
    some = list(itertools.islice(spends(CARDS, SALE), 1_000))
    assert len({command.command_key for command in some}) == len({command.id for command in some}) == 1_000
