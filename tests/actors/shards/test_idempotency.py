"""One effect for each idempotency key (G5), whoever asks how often and wherever the copies meet."""

from __future__ import annotations

import asyncio

import pytest

from engine.commands import Command
from engine.replies import Done, IdempotencyClaim, NotExecuted, Problem, Reply, body_bytes
from tests.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    VAULT,
    Cluster,
    TestHost,
    furnish,
    idle,
    turns,
)
from tests.engine.build import change_card, change_programme, create_card, key, load

CLAIM = IdempotencyClaim(key(1) * 2, key(2) * 2)
OTHER_PAYLOAD = IdempotencyClaim(key(1) * 2, key(3) * 2)
OTHER_KEY = IdempotencyClaim(key(4) * 2, key(2) * 2)
SECRET = {"decision_secret": "shown once"}


def copy(number: int) -> Command:
    """The load as the API asks for it again: another id and command key, the same idempotency key."""
    return load(number, card_id=FIRST.id)


def bodies(replies: list[Reply]) -> set[bytes]:
    assert all(isinstance(reply, Done) for reply in replies), replies
    return {body_bytes(reply.body) for reply in replies if isinstance(reply, Done)}


async def test_the_claim_is_committed_with_its_effect(host: TestHost, cluster: Cluster) -> None:
    reply = await host.ask_one(copy(1), claim=CLAIM, presentation=SECRET)
    assert isinstance(reply, Done)
    row = cluster.store.idempotency.rows[CLAIM.key_digest]
    assert (row["fingerprint"], row["status"]) == (CLAIM.fingerprint, 201)
    assert VAULT.open("idempotency", row["body"], CLAIM.key_digest) == body_bytes(reply.body)
    (rows,) = [rows for rows in host.faults.commits if rows.idempotency]
    assert [entry[3] for entry in rows.journal] == [copy(1).command_key]


async def test_parallel_copies_have_one_effect(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    asking = [asyncio.create_task(host.ask_one(copy(number), claim=CLAIM)) for number in range(1, 9)]
    altered = asyncio.create_task(host.ask_one(copy(9), claim=OTHER_PAYLOAD))
    stranger = asyncio.create_task(host.ask_one(copy(10), claim=OTHER_KEY))
    await hold.reached.wait()
    await idle()
    hold.release()
    replies = await asyncio.gather(*asking)
    assert len(bodies(replies)) == 1
    assert [reply.replayed for reply in replies if isinstance(reply, Done)] == [False] + [True] * 7
    assert await altered == NotExecuted("key_reused")
    other = await stranger
    assert isinstance(other, Done)
    assert not other.replayed
    assert len(cluster.journal_of(FIRST.id)) == 4


async def test_a_later_copy_is_found_at_the_commit(host: TestHost, cluster: Cluster) -> None:
    first = await host.ask_one(copy(1), claim=CLAIM, presentation=SECRET)
    again = await host.ask_one(copy(2), claim=CLAIM, presentation={"decision_secret": "another"})
    assert isinstance(first, Done)
    assert again == Done(first.status, first.body, replayed=True)
    assert body_bytes(first.body) == body_bytes(again.body)
    assert await host.ask_one(copy(3), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")
    assert len(cluster.journal_of(FIRST.id)) == 3


async def test_a_copy_that_conflicts_costs_its_neighbours_nothing(host: TestHost, cluster: Cluster) -> None:
    await host.ask_one(copy(1), claim=CLAIM)
    hold = host.faults.hold("before", "commit")
    first = host.asking(load(50, card_id=FIRST.id))
    await hold.reached.wait()
    conflicting = asyncio.create_task(host.ask_one(copy(2), claim=CLAIM))
    neighbours = host.asking(*(load(number, card_id=FIRST.id) for number in (51, 52)))
    await turns(lambda: host.host.committer.backlog == 4)
    hold.release()
    assert isinstance(await conflicting, Done)
    assert all(isinstance(reply, Done) and not reply.replayed for reply in (*await first, *await neighbours))
    assert len(cluster.journal_of(FIRST.id)) == 6


async def test_copies_at_two_hosts(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    reply = await first.ask_one(copy(1), claim=CLAIM)
    second = await cluster.add("b", ALL_SHARDS)
    again = await second.ask_one(copy(2), claim=CLAIM)
    assert isinstance(reply, Done)
    assert again == Done(reply.status, reply.body, replayed=True)
    assert await second.ask_one(copy(3), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")
    assert len(cluster.journal_of(FIRST.id)) == 3


async def test_a_refusal_claims_nothing(host: TestHost, cluster: Cluster) -> None:
    """The API remembers refusals; an owner only what has an effect."""
    refused = change_card(1, card_id=FIRST.id, state="unactivated")
    assert isinstance(await host.ask_one(refused, claim=CLAIM), Problem)
    assert not cluster.store.idempotency.rows
    assert isinstance(await host.ask_one(copy(1), claim=OTHER_PAYLOAD), Done)


async def test_success_without_a_change_is_claimed(host: TestHost, cluster: Cluster) -> None:
    same = change_card(1, card_id=FIRST.id, state="active")
    assert isinstance(await host.ask_one(same, claim=CLAIM), Done)
    assert set(cluster.store.idempotency.rows) == {CLAIM.key_digest}
    assert await host.ask_one(copy(1), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")


async def test_what_was_not_executed_leaves_the_key_free(host: TestHost) -> None:
    assert await host.ask_one(copy(1), claim=CLAIM, remaining_ms=-1) == NotExecuted("deadline")
    reply = await host.ask_one(copy(2), claim=OTHER_PAYLOAD)
    assert isinstance(reply, Done)
    assert not reply.replayed


async def test_a_key_is_free_after_a_day(host: TestHost, cluster: Cluster) -> None:
    await host.ask_one(copy(1), claim=CLAIM)
    cluster.clock.ms += 24 * 3_600_000
    reply = await host.ask_one(copy(2), claim=OTHER_PAYLOAD)
    assert isinstance(reply, Done)
    assert not reply.replayed


@pytest.mark.parametrize(
    "command",
    [
        create_card(9, programme_id=ADMIN.id),
        change_card(9, card_id=FIRST.id, state="suspended"),
        load(9, card_id=FIRST.id),
        change_programme(9, programme_id=ADMIN.id, name="New"),
    ],
    ids=lambda command: type(command).__name__,
)
async def test_every_rest_command_replays_byte_for_byte(host: TestHost, command: Command) -> None:
    first = await host.ask_one(command, claim=CLAIM, presentation=SECRET)
    copies = await asyncio.gather(*(host.ask_one(copy(n), claim=CLAIM) for n in range(1, 4)))
    assert len(bodies([first, *copies])) == 1
    assert all(isinstance(reply, Done) and reply.replayed for reply in copies)
