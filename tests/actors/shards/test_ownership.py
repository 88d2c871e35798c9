"""Shards move between hosts, also under load, and no command is lost or executed twice."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from actors.journal.contract import JournalError, RejectedError, UnknownOutcomeError
from engine.commands import Authorize, Command, CreateCard
from engine.replies import Done, NotExecuted, Reply
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    SECOND,
    Cluster,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import authorize, create_card, load, read_balance

SHARD = 0xA7


def spend(number: int = 1, **parts: Any) -> Authorize:
    return authorize(number, **{"card_id": FIRST.id} | parts)


async def test_each_take_gives_newer_epochs(cluster: Cluster) -> None:
    for epoch, name in enumerate("abc", 1):
        host = await cluster.add(name, ALL_SHARDS)
        assert host.host.epochs == dict.fromkeys(ALL_SHARDS, epoch)


async def test_state_is_read_after_the_take(cluster: Cluster) -> None:
    """State in memory from an earlier ownership is not used."""
    first, second = await cluster.add("a", ALL_SHARDS), await cluster.add("b")
    await furnish(first)
    assert approved(await first.execute_one(spend(1)))
    await first.host.release([SHARD])
    await second.host.take([SHARD])
    assert await first.execute_one(spend(2)) == NotExecuted("not_owner")
    await second.execute(load(1, card_id=FIRST.id, amount_minor=77))
    await second.host.release([SHARD])
    await first.host.take([SHARD])
    (reply,) = await first.execute(read_balance(1, card_id=FIRST.id))
    assert isinstance(reply, Done)
    assert (reply.body["posted"], reply.body["held"]) == ("100.77", "10.00")


async def test_release_makes_decisions_durable(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    pending = host.submit(spend(1))
    await hold.reached.wait()
    queued = host.submit(spend(2))
    await idle()
    release = asyncio.create_task(host.host.release([SHARD]))
    await idle()
    assert not release.done()
    assert await host.execute_one(spend(3)) == NotExecuted("not_owner")
    hold.release()
    await release
    assert all(map(approved, (*await pending, *await queued)))
    assert cluster.store.owners[SHARD] is None
    assert SHARD not in host.host.epochs
    assert FIRST.id not in host.host.activation.cards
    assert len(host.host.epochs) == 255


async def test_release_ends_while_other_shards_are_busy(host: TestHost) -> None:
    busy = True

    async def keep_busy(first: int) -> None:
        number = first
        while busy:
            await host.execute(load(number, card_id=SECOND.id, amount_minor=1))
            number += 10

    callers = [asyncio.create_task(keep_busy(1_000 + each)) for each in range(10)]
    await turns(lambda: host.host.committer.backlog > 3)
    await host.host.release([SHARD])
    busy = False
    await asyncio.gather(*callers)


async def test_release_refuses_a_command_that_waits_for_its_card(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second = await cluster.add("b", ALL_SHARDS)
    hold = second.faults.hold("before", "load_cards")
    pending = second.submit(spend(1), authorize(2, card_id=SECOND.id, amount_minor=0))
    await hold.reached.wait()
    await second.host.release([SHARD])
    hold.release()
    replies = await pending
    assert replies[0] == NotExecuted("not_owner")
    assert approved(replies[1])


@pytest.mark.parametrize("failure", [RejectedError(), UnknownOutcomeError()], ids=["refused", "unknown"])
@pytest.mark.parametrize("point", ["before", "after"])
async def test_failed_commit_during_a_release_executes_nothing_afterwards(
    host: TestHost, cluster: Cluster, failure: JournalError, point: Any
) -> None:
    """No command may be executed after its caller got ``not_owner``."""
    hold = host.faults.hold(point, "commit")
    host.faults.fail(point, "commit", failure)
    pending = host.submit(spend(1), authorize(2, card_id=SECOND.id, amount_minor=0))
    await hold.reached.wait()
    release = asyncio.create_task(host.host.release([SHARD]))
    await idle()
    hold.release()
    await release
    mine, others = await pending
    assert approved(others)
    committed = point == "after"
    assert approved(mine) == committed
    assert committed or mine == NotExecuted("not_owner")
    late = next(rows for rows in host.faults.commits if SHARD in rows.shards and len(rows.journal) == 2)
    if isinstance(failure, UnknownOutcomeError) and not committed:
        with pytest.raises(JournalError):
            await host.journal.commit(late)
    assert len(cluster.store.holds.rows) == committed
    other = await cluster.add("b", [SHARD])
    assert approved(await other.execute_one(spend(1)))
    assert len(cluster.store.holds.rows) == 1


async def test_release_that_the_journal_does_not_record_ends_ownership(
    host: TestHost, cluster: Cluster
) -> None:
    host.faults.fail("before", "release", UnknownOutcomeError())
    await host.host.release([SHARD])
    assert await host.execute_one(spend(1)) == NotExecuted("not_owner")
    other = await cluster.add("b", [SHARD])
    assert approved(await other.execute_one(spend(1)))


async def test_failed_take_changes_nothing(cluster: Cluster) -> None:
    host = await cluster.add("a", [1])
    host.faults.fail("before", "take", UnknownOutcomeError())
    with pytest.raises(UnknownOutcomeError):
        await host.host.take([2])
    assert set(host.host.epochs) == {1}
    await host.host.take([2])
    assert set(host.host.epochs) == {1, 2}


async def test_stop_makes_decisions_durable(host: TestHost) -> None:
    hold = host.faults.hold("during", "commit")
    pending = host.submit(spend(1))
    await hold.reached.wait()
    stop = asyncio.create_task(host.host.stop())
    await idle()
    assert not stop.done()
    assert await host.execute_one(spend(2)) == NotExecuted("not_owner")
    hold.release()
    await stop
    assert approved((await pending)[0])
    await host.host.stop()
    assert await host.execute_one(spend(3)) == NotExecuted("not_owner")


async def test_stop_waits_for_a_recovery(host: TestHost) -> None:
    host.faults.fail("after", "commit", UnknownOutcomeError())
    hold = host.faults.hold("before", "find")
    pending = host.submit(spend(1))
    await hold.reached.wait()
    stop = asyncio.create_task(host.host.stop())
    await idle()
    assert not stop.done()
    hold.release()
    await stop
    assert approved((await pending)[0])


class RetryingClient:
    """Sends a command to the current owner until it is executed, under one command key."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.owners: dict[int, str] = {}

    async def submit(self, command: Command) -> Reply:
        target = command.id if isinstance(command, CreateCard) else command.card_id  # type: ignore[union-attr]
        while True:
            host = self.cluster.hosts[self.owners[int(target[-2:], 16)]]
            reply = await host.execute_one(command)
            if reply != NotExecuted("not_owner"):
                return reply
            await asyncio.sleep(0)


async def test_moving_shards_under_load_loses_and_doubles_no_command(cluster: Cluster) -> None:
    """Each approval has exactly one hold, and there are no other holds."""
    dice = random.Random(7)
    await furnish(await cluster.add("a", ALL_SHARDS), cents=0)
    cards = [create_card(number, number, programme_id=ADMIN.id) for number in range(10, 18)]
    client = RetryingClient(cluster)
    client.owners = dict.fromkeys(ALL_SHARDS, "a")
    for number, card in enumerate(cards):
        await client.submit(card)
        await client.submit(load(100 + number, card_id=card.id, amount_minor=2_000))
    await cluster.add("b")
    moving = True

    async def move() -> None:
        while moving:
            shard = int(dice.choice(cards).id[-2:], 16)
            giver, taker = client.owners[shard], {"a": "b", "b": "a"}[client.owners[shard]]
            await cluster.hosts[giver].host.release([shard])
            await cluster.hosts[taker].host.take([shard])
            client.owners[shard] = taker
            await idle(dice.randrange(20))

    async def shop(card_id: str, numbers: range) -> list[str]:
        held = []
        for number in numbers:
            command = authorize(number, card_id=card_id, amount_minor=100, id=_id(number, card_id))
            if approved(await client.submit(command)):
                held.append(command.id)
            await idle(dice.randrange(20))
        return held

    mover = asyncio.create_task(move())
    runs = [
        shop(card.id, range(1_000 * place + 100 * shopper, 1_000 * place + 100 * shopper + 15))
        for place, card in enumerate(cards, 1)
        for shopper in range(2)
    ]
    held = [id_ for run in await asyncio.gather(*runs) for id_ in run]
    moving = False
    await mover
    assert len(held) == len(set(held)) == 20 * len(cards)
    rows = cluster.store.transactions.rows.values()
    assert {row["id"] for row in rows if row["status"] == "pending"} == set(held)
    assert sum(row["amount_minor"] for row in cluster.store.holds.rows.values()) == 2_000 * len(cards)
    for card in cards:
        journal = cluster.journal_of(card.id)
        assert [row["seq"] for row in journal] == list(range(1, len(journal) + 1))
        assert [row["epoch"] for row in journal] == sorted(row["epoch"] for row in journal)
    assert sum(cluster.store.epochs) > 256 + 10, "shards have moved"


def _id(number: int, card_id: str) -> str:
    return f"{number:08x}-0001-7000-8000-0000000000{card_id[-2:]}"


async def test_release_that_cannot_finish_in_time_keeps_the_shards(
    host: TestHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.shards.host.RELEASE_SECONDS", 0.01)
    hold = host.faults.hold("during", "commit")
    pending = host.submit(authorize(1, card_id=FIRST.id))
    await hold.reached.wait()
    with pytest.raises(TimeoutError):
        await host.host.release(ALL_SHARDS)
    hold.release()
    assert approved((await pending)[0])
    assert approved(await host.execute_one(authorize(2, card_id=FIRST.id)))
