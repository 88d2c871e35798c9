"""Shoppers against an edge in the test's hands: everything they hear is written down, and nothing else."""

from __future__ import annotations

import asyncio
import random

from actors.network.custody import CardCustody
from actors.network.session import Session
from actors.vault import Vault
from engine.replies import NotExecuted, WireAnswer
from ops.chaos.traffic.shoppers import Plastic, Terminal
from ops.histories.operations import History
from tests.actors.network.support import CARD_ID, PAN, Harness, approve, running_edge, until

PLASTIC = Plastic(CARD_ID, PAN, "2911")


async def till_at(harness: Harness, seed: int = 1) -> tuple[Terminal, Session, History]:
    session, history = Session(*harness.address), History()
    session.start()
    await session.connected(10)
    return Terminal(session, history, PLASTIC, random.Random(seed)), session, history


async def test_a_day_of_shopping(vault: Vault) -> None:
    async with running_edge(CardCustody(vault)) as harness:
        terminal, session, history = await till_at(harness)
        for _ in range(60):
            await terminal.send_random()
        await session.stop()
    kinds = {operation.kind for operation in history.operations}
    assert kinds == {"authorize", "increment", "reverse", "present"}
    assert all(operation.outcome == "ok" for operation in history.operations)
    assert all(operation.ended and operation.ended >= operation.began for operation in history.operations)
    heard = {command.wire.stan for command in harness.owners.submitted}
    assert {operation.stan for operation in history.operations} == heard
    assert harness.respondent.counts.invalid == 0


async def test_it_asks_again_until_it_knows(vault: Vault) -> None:
    """91 says nothing: the same message again, as its repeat, until somebody knows."""
    replies = iter([NotExecuted("overloaded"), NotExecuted("deadline")])
    async with running_edge(CardCustody(vault)) as harness:
        harness.owners.decide = lambda command: next(replies, None) or approve(command)
        terminal, session, history = await till_at(harness, seed=2)
        operation = await terminal.buy()
        await session.stop()
    assert operation.outcome == "ok"
    assert [each.outcome for each in history.operations][:3] == ["info", "info", "ok"]
    assert len({each.identity for each in history.operations}) == 1


async def test_a_refusal_is_an_answer(vault: Vault) -> None:
    async with running_edge(CardCustody(vault)) as harness:
        harness.owners.decide = lambda command: WireAnswer("51", command.id)
        terminal, session, _ = await till_at(harness)
        operation = await terminal.buy()
        await session.stop()
    assert (operation.outcome, operation.response_code) == ("ok", "51")


async def test_whoever_is_cut_off_does_not_know(vault: Vault) -> None:
    async with running_edge(CardCustody(vault)) as harness:
        harness.owners.gate.clear()
        terminal, session, history = await till_at(harness)
        buying = asyncio.create_task(terminal.buy(repeats=0))
        await until(lambda: harness.owners.submitted)
        await session.stop()
        operation = await buying
        harness.owners.gate.set()
    assert (operation.outcome, operation.response_code) == ("info", None)
    assert history.operations == [operation]


def test_a_card_is_never_printed() -> None:
    assert PAN not in repr(PLASTIC)
