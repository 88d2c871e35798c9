"""How cold cards become active, and active ones are forgotten."""

from __future__ import annotations

import asyncio

from actors.cards.activation import CardActor
from actors.journal.contract import UnknownOutcomeError
from engine.commands import Command
from engine.replies import Done, NotExecuted, WireAnswer
from tests.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    Cluster,
    TestHost,
    approved,
    furnish,
    idle,
)
from tests.engine.build import authorize, create_card, load, read_balance

CARDS = [create_card(number, number % 256, programme_id=ADMIN.id) for number in range(100, 140)]


def spend(number: int = 1, **parts: object) -> Command:
    return authorize(number, **{"card_id": FIRST.id} | parts)


async def successor(cluster: Cluster, active_cards_max: int = 1_000) -> TestHost:
    """A host that has nothing in memory, after one that has written a programme and many cards."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.ask(*CARDS)
    await first.ask(*(load(number, card_id=card.id) for number, card in enumerate(CARDS)))
    return await cluster.add("b", ALL_SHARDS, active_cards_max)


async def test_a_crowd_for_one_cold_card_reads_once(cluster: Cluster) -> None:
    host = await successor(cluster)
    replies = await host.ask(*(spend(number, amount_minor=1) for number in range(1, 101)))
    assert all(map(approved, replies))
    assert host.faults.calls["load_cards"] == 1


async def test_who_comes_while_the_card_is_read_waits_for_that_read(cluster: Cluster) -> None:
    host = await successor(cluster)
    hold = host.faults.hold("before", "load_cards")
    early = host.asking(spend(1))
    await hold.reached.wait()
    late = [host.asking(spend(number, amount_minor=1)) for number in range(2, 30)]
    await idle()
    hold.release()
    assert all(approved(reply) for (reply,) in await asyncio.gather(early, *late))
    assert host.faults.calls["load_cards"] == 1


async def test_many_cold_cards_share_a_few_reads(cluster: Cluster) -> None:
    host = await successor(cluster)
    commands = [authorize(number, card_id=card.id) for number, card in enumerate(CARDS)]
    replies = await asyncio.gather(*(host.ask_one(command) for command in commands))
    assert all(map(approved, replies))
    assert host.faults.calls["load_cards"] <= 2


async def test_programmes_are_read_once(cluster: Cluster) -> None:
    host = await successor(cluster)
    for number, card in enumerate(CARDS):
        await host.ask(authorize(number, card_id=card.id))
    assert host.faults.calls["load_programmes"] == 1


async def test_a_read_is_tried_again_until_the_journal_is_there(cluster: Cluster) -> None:
    host = await successor(cluster)
    host.faults.fail("before", "load_cards", UnknownOutcomeError(), UnknownOutcomeError())
    host.faults.fail("after", "load_programmes", UnknownOutcomeError())
    assert approved(await host.ask_one(spend()))


async def test_what_is_reloaded_equals_what_was_in_memory(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.ask(*(spend(number, cvv2=("match", "mismatch")[number % 2]) for number in range(1, 8)))
    before = first.host.activation.cards[FIRST.id]
    second = await cluster.add("b", ALL_SHARDS)
    await second.ask(read_balance(1, card_id=FIRST.id))
    after = second.host.activation.cards[FIRST.id]
    assert (after.card, after.account) == (before.card, before.account)


async def test_the_least_recently_used_cards_are_forgotten(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=10)
    for number, card in enumerate(CARDS):
        await host.ask(authorize(number, card_id=card.id, amount_minor=1))
        await host.ask(spend(1_000 + number, amount_minor=1))
    active = host.host.activation.cards
    assert len(active) == 10
    assert set(active) == {FIRST.id, *(card.id for card in CARDS[-9:])}
    assert set(host.host.activation.accounts) == {actor.card.account_id for actor in active.values()}


async def test_who_was_forgotten_comes_back_as_he_was(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=1)
    for round_ in range(3):
        for number, card in enumerate(CARDS):
            reply = await host.ask_one(authorize(100 * round_ + number, card_id=card.id, amount_minor=2_000))
            assert approved(reply) == (round_ < 2), (round_, number)
    assert len(host.host.activation.cards) == 1


async def test_a_batch_of_more_cards_than_fit_is_executed(cluster: Cluster) -> None:
    """Not one of them may be forgotten between its reading and its decision."""
    host = await successor(cluster, active_cards_max=3)
    commands = [authorize(number, card_id=card.id) for number, card in enumerate(CARDS)]
    replies = await host.ask(*commands)
    assert all(map(approved, replies))
    assert len(host.host.activation.cards) == 3


async def test_undurable_cards_are_never_forgotten(cluster: Cluster) -> None:
    host = await successor(cluster, active_cards_max=2)
    hold = host.faults.hold("during", "commit")
    undurable = [create_card(200 + number, programme_id=ADMIN.id) for number in range(5)]
    asking = host.asking(*undurable)
    await hold.reached.wait()
    reading = host.asking(*(read_balance(number, card_id=card.id) for number, card in enumerate(undurable)))
    spending = host.asking(*(authorize(number, card_id=card.id) for number, card in enumerate(CARDS[:5])))
    await idle()
    assert {card.id for card in undurable} <= set(host.host.activation.cards)
    hold.release()
    assert all(isinstance(reply, Done) for reply in (*await asking, *await reading))
    assert all(map(approved, await spending))
    assert len(host.host.activation.cards) == 2


async def test_cards_that_share_an_account_share_it_in_memory(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second_card = create_card(5, programme_id=ADMIN.id, account_id=FIRST.account_id, opens_account=False)
    await first.ask(second_card)
    host = await cluster.add("b", ALL_SHARDS, active_cards_max=1)
    for number in range(1, 12):
        card_id = (FIRST.id, second_card.id)[number % 2]
        reply = await host.ask_one(authorize(number, card_id=card_id))
        assert approved(reply) == (number < 11)
    assert approved(await host.ask_one(spend(50, kind="refund")))
    assert approved(await host.ask_one(authorize(51, card_id=second_card.id)))


async def test_absent_cards_leave_nothing_behind(cluster: Cluster) -> None:
    host = await successor(cluster)
    ghost = create_card(9_999).id
    assert await host.ask_one(spend(1, card_id=ghost)) == WireAnswer("14", authorize(1).id)
    assert ghost not in host.host.activation.cards
    assert await host.ask(create_card(9_999, programme_id=ADMIN.id)) != []
    assert await host.ask_one(spend(2, card_id=ghost)) == WireAnswer("51", authorize(2).id)


async def test_a_stopped_host_leaves_no_reader_behind(cluster: Cluster) -> None:
    host = await successor(cluster)
    host.faults.hold("before", "load_cards")
    asking = host.asking(spend())
    await idle()
    await host.host.stop()
    assert await asking == [NotExecuted("not_owner")]
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "activation"]
    assert not any(isinstance(actor, CardActor) for actor in host.host.activation.cards.values())
