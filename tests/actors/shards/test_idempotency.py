"""One effect for each idempotency key (G5), for concurrent and later copies, on one host and on several."""

from __future__ import annotations

import asyncio

import pytest

from actors.submission import Submission
from engine.commands import Command, ReadBalance
from engine.replies import Done, IdempotencyClaim, NotExecuted, Problem, Reply, body_bytes
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    VAULT,
    Cluster,
    TestHost,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import TENANT, an_id, change_card, change_programme, create_card, key, load

CLAIM = IdempotencyClaim(key(1) * 2, key(2) * 2)
OTHER_PAYLOAD = IdempotencyClaim(key(1) * 2, key(3) * 2)
OTHER_KEY = IdempotencyClaim(key(4) * 2, key(2) * 2)
SECRET = {"decision_secret": "shown once"}


def copy(number: int) -> Command:
    """The load as the API sends it again: another id and command key, the same idempotency key."""
    return load(number, card_id=FIRST.id)


def bodies(replies: list[Reply]) -> set[bytes]:
    assert all(isinstance(reply, Done) for reply in replies), replies
    return {body_bytes(reply.body) for reply in replies if isinstance(reply, Done)}


async def test_idempotency_key_is_committed_with_its_effect(host: TestHost, cluster: Cluster) -> None:
    reply = await host.execute_one(copy(1), claim=CLAIM, presentation=SECRET)
    assert isinstance(reply, Done)
    row = cluster.store.idempotency.rows[CLAIM.key_digest]
    assert (row["fingerprint"], row["status"]) == (CLAIM.fingerprint, 201)
    assert VAULT.open("idempotency", row["body"], CLAIM.key_digest) == body_bytes(reply.body)
    (rows,) = [rows for rows in host.faults.commits if rows.idempotency]
    assert [entry[3] for entry in rows.journal] == [copy(1).command_key]


async def test_concurrent_copies_have_one_effect(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    pending = [asyncio.create_task(host.execute_one(copy(number), claim=CLAIM)) for number in range(1, 9)]
    altered = asyncio.create_task(host.execute_one(copy(9), claim=OTHER_PAYLOAD))
    stranger = asyncio.create_task(host.execute_one(copy(10), claim=OTHER_KEY))
    await hold.reached.wait()
    await idle()
    hold.release()
    replies = await asyncio.gather(*pending)
    assert len(bodies(replies)) == 1
    assert [reply.replayed for reply in replies if isinstance(reply, Done)] == [False] + [True] * 7
    assert await altered == NotExecuted("key_reused")
    other = await stranger
    assert isinstance(other, Done)
    assert not other.replayed
    assert len(cluster.journal_of(FIRST.id)) == 4


async def test_later_copy_gets_the_stored_response(host: TestHost, cluster: Cluster) -> None:
    first = await host.execute_one(copy(1), claim=CLAIM, presentation=SECRET)
    again = await host.execute_one(copy(2), claim=CLAIM, presentation={"decision_secret": "another"})
    assert isinstance(first, Done)
    assert again == Done(first.status, first.body, replayed=True)
    assert body_bytes(first.body) == body_bytes(again.body)
    assert await host.execute_one(copy(3), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")
    assert len(cluster.journal_of(FIRST.id)) == 3


async def test_conflicting_copy_does_not_affect_its_batch(host: TestHost, cluster: Cluster) -> None:
    await host.execute_one(copy(1), claim=CLAIM)
    hold = host.faults.hold("before", "commit")
    first = host.submit(load(50, card_id=FIRST.id))
    await hold.reached.wait()
    conflicting = asyncio.create_task(host.execute_one(copy(2), claim=CLAIM))
    neighbours = host.submit(*(load(number, card_id=FIRST.id) for number in (51, 52)))
    await turns(lambda: host.host.committer.backlog == 4)
    hold.release()
    assert isinstance(await conflicting, Done)
    assert all(isinstance(reply, Done) and not reply.replayed for reply in (*await first, *await neighbours))
    assert len(cluster.journal_of(FIRST.id)) == 6


async def test_copy_at_another_host_gets_the_stored_response(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    reply = await first.execute_one(copy(1), claim=CLAIM)
    second = await cluster.add("b", ALL_SHARDS)
    again = await second.execute_one(copy(2), claim=CLAIM)
    assert isinstance(reply, Done)
    assert again == Done(reply.status, reply.body, replayed=True)
    assert await second.execute_one(copy(3), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")
    assert len(cluster.journal_of(FIRST.id)) == 3


async def test_copies_that_a_lost_host_had_cost_the_next_owner_no_refused_commit(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    reply = await first.execute_one(copy(1), claim=CLAIM)
    second = await cluster.add("b", ALL_SHARDS)
    reread = ReadBalance(id=an_id(5), command_key=key(5), card_id=FIRST.id, tenant_id=TENANT, live=False)
    sent = [
        (copy(1), CLAIM),
        (copy(2), CLAIM),
        (copy(3), OTHER_PAYLOAD),
        (copy(4), OTHER_KEY),
        (reread, None),
    ]
    batch = [Submission(command, PATIENCE_MS, claim, repeat=True) for command, claim in sent]
    same, again, other, new, balance = await second.host.execute(batch)
    assert isinstance(reply, Done)
    assert same == again == Done(reply.status, reply.body, replayed=True)
    assert other == NotExecuted("key_reused")
    assert isinstance(new, Done)
    assert isinstance(balance, Done)
    assert second.host.committer.failures == 0
    assert second.host.activation.responses == {}
    assert len(cluster.journal_of(FIRST.id)) == 4


async def test_refusal_does_not_use_the_key(host: TestHost, cluster: Cluster) -> None:
    """The API stores refusals; the owner stores only replies of commands with an effect."""
    refused = change_card(1, card_id=FIRST.id, state="unactivated")
    assert isinstance(await host.execute_one(refused, claim=CLAIM), Problem)
    assert not cluster.store.idempotency.rows
    assert isinstance(await host.execute_one(copy(1), claim=OTHER_PAYLOAD), Done)


async def test_success_without_a_change_uses_the_key(host: TestHost, cluster: Cluster) -> None:
    same = change_card(1, card_id=FIRST.id, state="active")
    assert isinstance(await host.execute_one(same, claim=CLAIM), Done)
    assert set(cluster.store.idempotency.rows) == {CLAIM.key_digest}
    assert await host.execute_one(copy(1), claim=OTHER_PAYLOAD) == NotExecuted("key_reused")


async def test_unexecuted_command_does_not_use_the_key(host: TestHost) -> None:
    assert await host.execute_one(copy(1), claim=CLAIM, remaining_ms=-1) == NotExecuted("deadline")
    reply = await host.execute_one(copy(2), claim=OTHER_PAYLOAD)
    assert isinstance(reply, Done)
    assert not reply.replayed


async def test_key_can_be_reused_after_a_day(host: TestHost, cluster: Cluster) -> None:
    await host.execute_one(copy(1), claim=CLAIM)
    cluster.clock.ms += 24 * 3_600_000
    reply = await host.execute_one(copy(2), claim=OTHER_PAYLOAD)
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
    first = await host.execute_one(command, claim=CLAIM, presentation=SECRET)
    copies = await asyncio.gather(*(host.execute_one(copy(n), claim=CLAIM) for n in range(1, 4)))
    assert len(bodies([first, *copies])) == 1
    assert all(isinstance(reply, Done) and reply.replayed for reply in copies)
