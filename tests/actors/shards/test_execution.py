"""Execution without faults: replies, their order, repeats and refusals. No reply leaves before its commit."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import msgspec
import pytest

from actors.submission import (
    CommandBatch,
    Submission,
    decode_batch,
    decode_replies,
    encode_batch,
    encode_replies,
)
from engine.commands import Command, ReadBalance
from engine.limits import ACTIVATION_ANSWERS, COMMIT_BATCH_MAX
from engine.replies import Done, NotExecuted, Problem, WireAnswer
from tests.support.actors.shards.support import (
    ACCOUNT,
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    SECOND,
    Cluster,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import (
    an_id,
    authorize,
    change_card,
    change_programme,
    create_card,
    create_programme,
    key,
    load,
    read_balance,
    wire,
)


def spend(number: int = 1, **parts: object) -> Command:
    return authorize(number, **{"card_id": FIRST.id} | parts)


def balance(card_id: str = FIRST.id, number: int = 1) -> ReadBalance:
    return read_balance(number, card_id=card_id)


async def test_approval_is_durable_before_its_reply(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    pending = host.submit(spend())
    await hold.reached.wait()
    await idle()
    assert not pending.done()
    hold.release()
    assert await pending == [WireAnswer("00", spend().id, "000000", 1_000)]
    assert cluster.journal_of(FIRST.id)[-1]["command_key"] == spend().command_key


async def test_replies_have_the_order_of_the_commands(host: TestHost) -> None:
    commands = [spend(1), load(1, card_id=SECOND.id), spend(2, currency="USD"), balance(), spend(3)]
    replies = await host.execute(*commands)
    assert [type(reply) for reply in replies] == [WireAnswer, Done, WireAnswer, Done, WireAnswer]
    codes = [reply.response_code for reply in replies if isinstance(reply, WireAnswer)]
    assert codes == ["00", "12", "00"]
    assert await host.execute() == []


async def test_decision_sees_earlier_decisions_of_its_batch(host: TestHost) -> None:
    """Ten spends of 10.00 and one more, all in one batch, on 100.00."""
    replies = await host.execute(*(spend(number) for number in range(1, 12)))
    assert [approved(reply) for reply in replies] == [True] * 10 + [False]


async def test_balance_waits_for_the_commits_that_it_includes(host: TestHost) -> None:
    hold = host.faults.hold("during", "commit")
    spending = host.submit(spend())
    await hold.reached.wait()
    reading = host.submit(balance())
    await idle()
    assert not reading.done()
    hold.release()
    await spending
    (reply,) = await reading
    assert isinstance(reply, Done)
    assert (reply.body["held"], reply.body["available"]) == ("10.00", "90.00")


async def test_balance_read_is_not_replayed(host: TestHost) -> None:
    """A read under the same command key is executed again, because it has no effect."""
    (before,) = await host.execute(balance())
    await host.execute(spend())
    (after,) = await host.execute(balance())
    assert isinstance(before, Done)
    assert isinstance(after, Done)
    assert (before.body["held"], after.body["held"], after.replayed) == ("0.00", "10.00", False)


async def test_decisions_during_a_commit_share_the_next_one(host: TestHost) -> None:
    hold = host.faults.hold("during", "commit")
    commits = host.host.committer.commits
    pending = [host.submit(spend(number, amount_minor=1)) for number in range(1, 51)]
    await hold.reached.wait()
    await turns(lambda: host.host.committer.backlog == 50)
    hold.release()
    await asyncio.gather(*pending)
    assert host.host.committer.commits - commits <= 2


async def test_commit_batch_size_is_limited(host: TestHost) -> None:
    await host.execute(*(spend(number, amount_minor=1) for number in range(1, 2 * COMMIT_BATCH_MAX + 2)))
    sizes = [len(rows.journal) for rows in host.faults.commits[-3:]]
    assert sizes == [COMMIT_BATCH_MAX, COMMIT_BATCH_MAX, 1]


async def test_commands_get_the_replies_of_the_engine(host: TestHost) -> None:
    replies = await host.execute(
        change_card(1, card_id=FIRST.id, state="suspended"),
        spend(1),
        change_card(2, card_id=FIRST.id, state="unactivated"),
        change_card(3, card_id=FIRST.id, tenant_id=an_id(9)),
        load(1, card_id=FIRST.id, currency="USD"),
        change_programme(1, programme_id=ADMIN.id, name="Fuel"),
        change_programme(2, programme_id=ADMIN.id, live=True, name="Foreign"),
    )
    assert [getattr(reply, "status", None) for reply in replies] == [200, None, 409, 404, 400, 200, 404]
    assert isinstance(replies[1], WireAnswer)
    assert replies[1].response_code == "62"


async def test_commands_for_absent_cards_and_programmes_are_answered(host: TestHost) -> None:
    ghost = an_id(0xFFFF)
    replies = await host.execute(
        authorize(1, card_id=ghost),
        balance(ghost),
        load(2, card_id=ghost),
        change_card(1, card_id=ghost, state="lost"),
        change_programme(1, programme_id=ghost, name="x"),
        create_card(7, programme_id=ghost),
        create_card(8, programme_id=ADMIN.id, account_id=ghost, opens_account=False),
    )
    assert replies[0] == WireAnswer("14", authorize(1).id)
    assert all(isinstance(reply, Problem) and reply.status == 404 for reply in replies[1:])


async def test_card_joins_an_account_that_is_not_in_memory(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second = await cluster.add("b", ALL_SHARDS)
    joining = create_card(3, programme_id=ADMIN.id, account_id=ACCOUNT, opens_account=False)
    (reply,) = await second.execute(joining)
    assert isinstance(reply, Done)
    assert reply.body["funding_account_id"] == ACCOUNT
    assert approved(await second.execute_one(authorize(1, card_id=joining.id, amount_minor=9_000)))
    assert not approved(await second.execute_one(spend(2, amount_minor=2_000)))


@pytest.mark.parametrize(
    "parts",
    [{"tenant_id": an_id(9)}, {"live": True}, {"currency": "USD"}, {"programme_id": create_programme(2).id}],
    ids=["tenant", "mode", "currency", "programme"],
)
async def test_card_does_not_join_a_foreign_account(host: TestHost, parts: dict[str, Any]) -> None:
    await host.execute(create_programme(2))
    joining: dict[str, Any] = {"programme_id": ADMIN.id, "account_id": ACCOUNT, "opens_account": False}
    assert getattr(await host.execute_one(create_card(3, **joining | parts)), "status", None) == 404


# --- repeats ---


async def test_repeat_gets_the_stored_answer(host: TestHost, cluster: Cluster) -> None:
    first = await host.execute_one(spend())
    again = await host.execute_one(spend(id=an_id(0x999999)))
    assert isinstance(first, WireAnswer)
    assert again == WireAnswer("00", spend().id, first.approval_code, 1_000, replayed=True)
    assert len(cluster.store.transactions.rows) == 1


async def test_repeat_of_a_declined_command_is_declined(host: TestHost) -> None:
    declined = WireAnswer("51", spend().id, reason="insufficient_funds")
    assert await host.execute_one(spend(1, amount_minor=99_999)) == declined
    await host.execute_one(load(2, card_id=FIRST.id, amount_minor=500_000))
    again = await host.execute_one(spend(1, amount_minor=99_999))
    assert again == msgspec.structs.replace(declined, replayed=True)


async def test_same_wire_identity_with_other_content_is_answered_94(host: TestHost, cluster: Cluster) -> None:
    await host.execute_one(spend())
    other = spend(id=an_id(0x999999), fingerprint=key(77), amount_minor=5)
    assert await host.execute_one(other) == WireAnswer("94", spend().id, replayed=True)
    assert len(cluster.store.transactions.rows) == 1


async def test_concurrent_copies_get_one_answer(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    pending = [host.submit(spend(id=an_id(0x999900 + copy))) for copy in range(8)]
    other = host.submit(spend(id=an_id(0x9999FF), fingerprint=key(77)))
    await hold.reached.wait()
    await idle()
    hold.release()
    replies = [reply for (reply,) in await asyncio.gather(*pending)]
    assert {
        (reply.authorization_id, reply.response_code) for reply in replies if isinstance(reply, WireAnswer)
    } == {(an_id(0x999900), "00")}
    assert [reply.replayed for reply in replies if isinstance(reply, WireAnswer)] == [False] + [True] * 7
    assert await other == [WireAnswer("94", an_id(0x999900), replayed=True)]
    assert len(cluster.store.transactions.rows) == 1


async def test_copies_in_one_batch_get_one_answer(host: TestHost, cluster: Cluster) -> None:
    _, again = await host.execute(spend(), spend(id=an_id(0x999999)))
    assert isinstance(again, WireAnswer)
    assert again.replayed
    assert again.authorization_id == spend().id
    assert len(cluster.store.transactions.rows) == 1


async def test_repeat_that_is_not_in_memory_is_found_in_the_journal(cluster: Cluster) -> None:
    """The new owner has not executed it, and more commands followed than an activation reads."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    old = [spend(number, amount_minor=1) for number in range(1, ACTIVATION_ANSWERS + 3)]
    answers = await first.execute(*old)
    second = await cluster.add("b", ALL_SHARDS)
    again = await second.execute(*old, spend(100, amount_minor=1))
    assert [reply.authorization_id for reply in again if isinstance(reply, WireAnswer)] == [
        *(reply.authorization_id for reply in answers if isinstance(reply, WireAnswer)),
        spend(100).id,
    ]
    assert [getattr(reply, "replayed", None) for reply in again] == [True] * len(old) + [False]
    assert len(cluster.store.transactions.rows) == len(old) + 1


async def test_other_host_answers_94_for_another_card_under_the_same_identity(cluster: Cluster) -> None:
    """One wire identity is used for two cards of two hosts: the journal's unique key decides."""
    first = await cluster.add("a", [shard for shard in ALL_SHARDS if shard != 3])
    second = await cluster.add("b", [3])
    await first.execute(ADMIN)
    await first.execute(FIRST, load(1, card_id=FIRST.id))
    await second.execute(SECOND)
    await second.execute(load(2, card_id=SECOND.id))
    assert approved(await first.execute_one(spend()))
    conflicting = authorize(1, card_id=SECOND.id, id=an_id(0x999999, 3), fingerprint=key(78), wire=wire(1))
    assert await second.execute_one(conflicting) == WireAnswer("94", spend().id, replayed=True)
    (reply,) = await second.execute(balance(SECOND.id))
    assert isinstance(reply, Done)
    assert reply.body["available"] == "50.00"


async def test_repeat_behind_a_conflicting_message_gets_its_own_answer(cluster: Cluster) -> None:
    """Another host executed the message; at this host a conflicting message arrives first under its
    identity."""
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    assert approved(await first.execute_one(spend()))
    await first.execute(*(spend(number, amount_minor=1) for number in range(2, ACTIVATION_ANSWERS + 3)))
    second = await cluster.add("b", ALL_SHARDS)
    await second.execute(balance())
    hold = second.faults.hold("before", "commit")
    conflicting = second.submit(spend(id=an_id(0x999999), fingerprint=key(77)))
    await hold.reached.wait()
    genuine = second.submit(spend())
    await idle()
    hold.release()
    assert await conflicting == [WireAnswer("94", spend().id, replayed=True)]
    assert await genuine == [WireAnswer("00", spend().id, "000000", 1_000, replayed=True)]


async def test_repeated_old_message_costs_one_refused_commit(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    await first.execute(*(spend(number, amount_minor=1) for number in range(1, ACTIVATION_ANSWERS + 3)))
    second = await cluster.add("b", ALL_SHARDS)
    for _ in range(5):
        (reply,) = await second.execute(spend(1, amount_minor=1))
        assert isinstance(reply, WireAnswer)
        assert reply.replayed
    assert second.faults.calls["commit"] == 1


async def test_repeat_of_a_rest_command_gets_the_stored_answer(host: TestHost) -> None:
    first = await host.execute_one(load(5, card_id=FIRST.id), presentation={"cardholder_name": "Ada"})
    again = await host.execute_one(load(5, card_id=FIRST.id), presentation={"cardholder_name": "Ada"})
    assert isinstance(first, Done)
    assert isinstance(again, Done)
    assert (again.status, again.body, again.replayed) == (first.status, first.body, True)
    assert first.body["cardholder_name"] == "Ada"


async def test_presentation_members_are_not_written(host: TestHost, cluster: Cluster) -> None:
    reply = await host.execute_one(create_card(5, programme_id=ADMIN.id), presentation={"secret": "Canary"})
    assert isinstance(reply, Done)
    assert reply.body["secret"] == "Canary"
    tables = (cluster.store.journal, cluster.store.events, cluster.store.cards)
    assert not any("Canary" in repr(list(table.rows.values())) for table in tables)


# --- refusals by the host ---


async def test_command_beyond_its_deadline_is_not_executed(host: TestHost, cluster: Cluster) -> None:
    assert await host.execute_one(spend(), remaining_ms=0) != NotExecuted("deadline")
    assert await host.execute_one(spend(2), remaining_ms=-1) == NotExecuted("deadline")
    assert len(cluster.store.transactions.rows) == 1


async def test_deadline_can_pass_while_a_command_waits_for_its_card(cluster: Cluster) -> None:
    first = await cluster.add("a", ALL_SHARDS)
    await furnish(first)
    second = await cluster.add("b", ALL_SHARDS)
    hold = second.faults.hold("before", "load_cards")
    pending = second.submit(spend())
    await hold.reached.wait()
    cluster.clock.ms += PATIENCE_MS + 1
    hold.release()
    assert await pending == [NotExecuted("deadline")]
    assert not cluster.store.transactions.rows


async def test_commands_for_shards_of_other_hosts_are_refused(cluster: Cluster) -> None:
    host = await cluster.add("a", [1, 2])
    replies = await host.execute(spend(), ADMIN, create_card(1))
    assert replies == [NotExecuted("not_owner")] * 3
    assert not cluster.store.journal.rows


async def test_cancelled_caller_does_not_affect_other_replies(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("during", "commit")
    cancelled, other = host.submit(spend(), spend(2)), host.submit(spend(id=an_id(0x999999)))
    await hold.reached.wait()
    await idle()
    cancelled.cancel()
    await idle()
    hold.release()
    (reply,) = await other
    assert isinstance(reply, WireAnswer)
    assert (reply.response_code, reply.authorization_id) == ("00", spend().id)
    assert len(cluster.store.transactions.rows) == 2


async def test_fault_in_one_decision_does_not_affect_the_others(
    host: TestHost, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    decide = host.host.decider._execute

    def faulty(*arguments: object) -> None:
        decide(*arguments)  # type: ignore[arg-type]
        if arguments[2] == spend(3):
            raise ArithmeticError("after the state has changed")

    monkeypatch.setattr(host.host.decider, "_execute", faulty)
    replies = await host.execute(*(spend(number) for number in range(1, 6)), load(1, card_id=SECOND.id))
    assert replies[2] == NotExecuted("faulty")
    assert [approved(reply) for reply in replies[:5]] == [True, True, False, True, True]
    assert isinstance(replies[5], Done)
    assert [row["seq"] for row in cluster.journal_of(FIRST.id)] == [1, 2, 3, 4, 5, 6]
    (reply,) = await host.execute(balance())
    assert isinstance(reply, Done)
    assert reply.body["held"] == "40.00"


@pytest.mark.parametrize("times", [1, 1_000])
async def test_command_without_memory_is_retried_and_not_refused(
    host: TestHost, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """The command is decided when memory is available again. Otherwise the committer ends, and the process
    with it."""
    decide, short = host.host.decider._execute, itertools.repeat(None, times)
    ended: list[BaseException] = []

    def without_memory(*arguments: object) -> None:
        decide(*arguments)  # type: ignore[arg-type]
        if next(short, 0) is None:
            raise MemoryError

    monkeypatch.setattr(host.host.decider, "_execute", without_memory)
    host.host.committer.on_end(ended.append)
    written = len(cluster.journal_of(FIRST.id))
    pending = host.submit(spend())
    await turns(lambda: pending.done() or ended)
    if times == 1:
        assert approved((await pending)[0])
    else:
        assert isinstance(ended[0], MemoryError)
        assert not pending.done()
        pending.cancel()
    assert len(cluster.journal_of(FIRST.id)) == written + (times == 1)


async def test_batches_survive_encoding(host: TestHost) -> None:
    """A host receives the submissions that a router encodes."""
    submissions = [Submission(spend(), PATIENCE_MS), Submission(balance(), PATIENCE_MS, None, {"a": "b"})]
    caller, received = decode_batch(encode_batch(CommandBatch("a router", submissions)))
    assert (caller, received) == ("a router", submissions)
    replies = await host.host.execute_decodable(received)
    assert decode_replies(encode_replies(replies)) == replies
