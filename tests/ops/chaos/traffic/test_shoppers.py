"""Shoppers against an edge with scripted owners: every message and answer is recorded."""

from __future__ import annotations

import asyncio
import random

from actors.network.acquirer_session import AcquirerSession
from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from engine.replies import NotExecuted, WireAnswer
from ops.chaos.traffic.shoppers import Plastic, Terminal
from ops.histories.operations import History
from tests.support.actors.network.support import CARD_ID, PAN, Harness, approve, running_edge, until

PLASTIC = Plastic(CARD_ID, PAN, "2911")


async def connected_terminal(harness: Harness, seed: int = 1) -> tuple[Terminal, AcquirerSession, History]:
    session, history = AcquirerSession(*harness.address), History()
    session.start()
    await session.connected(10)
    return Terminal(session, history, PLASTIC, random.Random(seed)), session, history


async def test_all_kinds_of_messages_are_answered_and_recorded(vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        terminal, session, history = await connected_terminal(harness)
        for _ in range(60):
            await terminal.send_random()
        await session.stop()
    kinds = {operation.kind for operation in history.operations}
    assert kinds == {"authorize", "increment", "reverse", "present"}
    assert all(operation.outcome == "ok" for operation in history.operations)
    assert all(operation.ended and operation.ended >= operation.began for operation in history.operations)
    submitted = {command.wire.stan for command in harness.owners.submitted}
    assert {operation.stan for operation in history.operations} == submitted
    assert harness.respondent.counts.invalid == 0


async def test_an_unknown_outcome_is_repeated_until_it_is_known(vault: Vault) -> None:
    """91 leaves the outcome unknown, so the message is repeated until it is known."""
    replies = iter([NotExecuted("overloaded"), NotExecuted("deadline")])
    async with running_edge(CardSecrets(vault)) as harness:
        harness.owners.decide = lambda command: next(replies, None) or approve(command)
        terminal, session, history = await connected_terminal(harness, seed=2)
        operation = await terminal.purchase()
        await session.stop()
    assert operation.outcome == "ok"
    assert [each.outcome for each in history.operations][:3] == ["info", "info", "ok"]
    assert len({each.identity for each in history.operations}) == 1


async def test_a_decline_is_final(vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        harness.owners.decide = lambda command: WireAnswer("51", command.id)
        terminal, session, _ = await connected_terminal(harness)
        operation = await terminal.purchase()
        await session.stop()
    assert (operation.outcome, operation.response_code) == ("ok", "51")


async def test_a_lost_connection_leaves_the_outcome_unknown(vault: Vault) -> None:
    async with running_edge(CardSecrets(vault)) as harness:
        harness.owners.gate.clear()
        terminal, session, history = await connected_terminal(harness)
        buying = asyncio.create_task(terminal.purchase(repeats=0))
        await until(lambda: harness.owners.submitted)
        await session.stop()
        operation = await buying
        harness.owners.gate.set()
    assert (operation.outcome, operation.response_code) == ("info", None)
    assert history.operations == [operation]


def test_a_card_is_never_printed() -> None:
    assert PAN not in repr(PLASTIC)
