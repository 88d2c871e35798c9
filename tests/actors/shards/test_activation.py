"""Activation and passivation of cards."""

from __future__ import annotations

import asyncio

import pytest

from actors.cards.card_actor import CardActor
from actors.journal.contract import UnknownOutcomeError
from actors.journal.memory_reads import MemoryReads
from engine.cards.account import Account
from engine.commands import Command
from engine.replies import Done, NotExecuted, WireAnswer
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    Cluster,
    TestHost,
    approved,
    furnish,
    idle,
)
from tests.support.engine.build import authorize, create_card, load, read_balance

CARDS = [create_card(number, number % 256, programme_id=ADMIN.id) for number in range(100, 140)]


def spend(number: int = 1, **parts: object) -> Command:
    return authorize(number, **{"card_id": FIRST.id} | parts)


async def successor(cluster: Cluster, active_cards_max: int = 1_000) -> TestHost:
    """A host without state in memory; another host has written a programme and many cards."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.execute(*CARDS)
    await first.execute(*(load(number, card_id=card.id) for number, card in enumerate(CARDS)))
    return await cluster.add("b", ALL_SHARDS, active_cards_max)


async def test_concurrent_commands_for_one_cold_card_read_it_once(cluster: Cluster) -> None:
    host = await successor(cluster)
    replies = await host.execute(*(spend(number, amount_minor=1) for number in range(1, 101)))
    assert all(map(approved, replies))
    assert host.faults.calls["load_cards"] == 1


async def test_command_during_a_read_waits_for_that_read(cluster: Cluster) -> None:
    host = await successor(cluster)
    hold = host.faults.hold("before", "load_cards")
    early = host.submit(spend(1))
    await hold.reached.wait()
    late = [host.submit(spend(number, amount_minor=1)) for number in range(2, 30)]
    await idle()
    hold.release()
    assert all(approved(reply) for (reply,) in await asyncio.gather(early, *late))
    assert host.faults.calls["load_cards"] == 1


async def test_many_cold_cards_share_a_few_reads(cluster: Cluster) -> None:
    host = await successor(cluster)
    commands = [authorize(number, card_id=card.id) for number, card in enumerate(CARDS)]
    replies = await asyncio.gather(*(host.execute_one(command) for command in commands))
    assert all(map(approved, replies))
    assert host.faults.calls["load_cards"] <= 2


async def test_programme_is_read_once_for_all_its_cards(cluster: Cluster) -> None:
    host = await successor(cluster)
    for number, card in enumerate(CARDS):
        await host.execute(authorize(number, card_id=card.id))
    assert host.faults.calls["load_programmes"] == 1


async def test_failed_read_is_retried(cluster: Cluster) -> None:
    host = await successor(cluster)
    host.faults.fail("before", "load_cards", UnknownOutcomeError(), UnknownOutcomeError())
    host.faults.fail("after", "load_programmes", UnknownOutcomeError())
    assert approved(await host.execute_one(spend()))


async def test_reloaded_card_equals_the_one_in_memory(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.execute(*(spend(number, cvv2=("match", "mismatch")[number % 2]) for number in range(1, 8)))
    before = first.host.activation.cards[FIRST.id]
    second = await cluster.add("b", ALL_SHARDS)
    await second.execute(read_balance(1, card_id=FIRST.id))
    after = second.host.activation.cards[FIRST.id]
    assert (after.card, after.account) == (before.card, before.account)


async def test_least_recently_used_cards_are_passivated(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=10)
    for number, card in enumerate(CARDS):
        await host.execute(authorize(number, card_id=card.id, amount_minor=1))
        await host.execute(spend(1_000 + number, amount_minor=1))
    active = host.host.activation.cards
    assert len(active) == 10
    assert set(active) == {FIRST.id, *(card.id for card in CARDS[-9:])}
    assert set(host.host.activation.accounts) == {actor.card.account_id for actor in active.values()}


async def test_passivated_card_keeps_its_state(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=1)
    for round_ in range(3):
        for number, card in enumerate(CARDS):
            reply = await host.execute_one(
                authorize(100 * round_ + number, card_id=card.id, amount_minor=2_000)
            )
            assert approved(reply) == (round_ < 2), (round_, number)
    assert len(host.host.activation.cards) == 1


async def test_batch_with_more_cards_than_fit_in_memory_is_executed(cluster: Cluster) -> None:
    """No card may be passivated between its read and its decision."""
    host = await successor(cluster, active_cards_max=3)
    commands = [authorize(number, card_id=card.id) for number, card in enumerate(CARDS)]
    replies = await host.execute(*commands)
    assert all(map(approved, replies))
    assert len(host.host.activation.cards) == 3


async def test_undurable_card_is_not_passivated(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=2)
    hold = host.faults.hold("during", "commit")
    undurable = [create_card(200 + number, programme_id=ADMIN.id) for number in range(5)]
    pending = host.submit(*undurable)
    await hold.reached.wait()
    reading = host.submit(*(read_balance(number, card_id=card.id) for number, card in enumerate(undurable)))
    spending = host.submit(*(authorize(number, card_id=card.id) for number, card in enumerate(CARDS[:5])))
    await idle()
    assert {card.id for card in undurable} <= set(host.host.activation.cards)
    hold.release()
    assert all(isinstance(reply, Done) for reply in (*await pending, *await reading))
    assert all(map(approved, await spending))
    assert len(host.host.activation.cards) == 2


async def test_cards_that_share_an_account_share_it_in_memory(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second_card = create_card(5, programme_id=ADMIN.id, account_id=FIRST.account_id, opens_account=False)
    await first.execute(second_card)
    host = await cluster.add("b", ALL_SHARDS, active_cards_max=1)
    for number in range(1, 12):
        card_id = (FIRST.id, second_card.id)[number % 2]
        reply = await host.execute_one(authorize(number, card_id=card_id))
        assert approved(reply) == (number < 11)
    assert approved(await host.execute_one(spend(50, kind="refund")))
    assert approved(await host.execute_one(authorize(51, card_id=second_card.id)))


async def sharing(cluster: Cluster, active_cards_max: int = 1_000) -> tuple[TestHost, str]:
    """A host with ``FIRST`` in memory, and the id of a cold card that shares its account."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    beside = create_card(5, programme_id=ADMIN.id, account_id=FIRST.account_id, opens_account=False)
    await first.execute(beside, *CARDS)
    host = await cluster.add("b", ALL_SHARDS, active_cards_max)
    assert approved(await host.execute_one(spend(1)))
    return host, beside.id


async def test_account_in_memory_is_not_read_again_with_its_next_card(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, beside = await sharing(cluster)
    read: list[str | None] = []
    account_of = MemoryReads.account

    def account(store: MemoryReads, id_: str) -> Account | None:
        read.append(id_)
        return account_of(store, id_)

    monkeypatch.setattr(MemoryReads, "account", account)
    assert approved(await host.execute_one(spend(2, card_id=beside)))
    assert read == []
    first, second = (host.host.activation.cards[id_] for id_ in (FIRST.id, beside))
    assert first.account is second.account


async def test_account_that_is_dropped_during_the_read_is_read_again(cluster: Cluster) -> None:
    host, beside = await sharing(cluster)
    hold = host.faults.hold("after", "load_cards")
    pending = host.submit(spend(2, card_id=beside))
    await hold.reached.wait()
    host.host.activation.drop_cards([FIRST.id])
    hold.release()
    assert approved((await pending)[0])
    actor = host.host.activation.cards[beside]
    assert actor.account is not None
    assert len(actor.account.holds) == 2


async def test_absent_card_is_not_remembered(cluster: Cluster) -> None:
    host = await successor(cluster)
    ghost = create_card(9_999).id
    assert await host.execute_one(spend(1, card_id=ghost)) == WireAnswer("14", authorize(1).id)
    assert ghost not in host.host.activation.cards
    assert await host.execute(create_card(9_999, programme_id=ADMIN.id)) != []
    assert await host.execute_one(spend(2, card_id=ghost)) == WireAnswer(
        "51", authorize(2).id, reason="insufficient_funds"
    )


async def test_stopped_host_has_no_reading_task(cluster: Cluster) -> None:
    host = await successor(cluster)
    host.faults.hold("before", "load_cards")
    pending = host.submit(spend())
    await idle()
    await host.host.stop()
    assert await pending == [NotExecuted("not_owner")]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "activation"]
    assert not any(isinstance(actor, CardActor) for actor in host.host.activation.cards.values())
