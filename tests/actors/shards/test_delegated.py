"""Delegated decisions and stand-in on hosts: other replies are not delayed, exposure is durable before it is
granted, and none is lost or doubled when owners die."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.journal.contract import UnknownOutcomeError
from actors.shards.reply_slots import DEFERRED
from actors.submission import Submission
from engine.decision.delegation import EndpointResult
from engine.replies import Done, Granted, NotExecuted, WireAnswer
from tests.support.actors.shards.support import (
    ADMIN,
    ALL_SHARDS,
    FIRST,
    PATIENCE_MS,
    SECOND,
    Cluster,
    Hold,
    TestHost,
    approved,
    furnish,
    idle,
    turns,
)
from tests.support.engine.build import (
    ask,
    authorize,
    change_programme,
    declare_balance,
    end_outage,
    grant_stand_ins,
    set_policy,
)

SILENT = EndpointResult(trigger="timeout")
PROGRAMME = ADMIN.id


def spend(number: int = 1, **parts: Any) -> Any:
    return authorize(number, **({"card_id": FIRST.id} | parts))


@pytest.fixture
async def delegated(cluster: Cluster) -> TestHost:
    """One host with a delegated programme that stands in up to 100.00."""
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host, cents=100_000)
    changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
    replies = await host.execute(
        change_programme(1, programme_id=PROGRAMME, **changes),
        set_policy(1, programme_id=PROGRAMME),
        declare_balance(1, card_id=FIRST.id, amount_minor=50_000),
    )
    assert all(isinstance(reply, Done) for reply in replies), replies
    return host


def stand_ins(cluster: Cluster) -> list[dict[str, Any]]:
    return list(cluster.store.stand_ins.rows.values())


def open_outages(cluster: Cluster) -> list[dict[str, Any]]:
    return [row for row in cluster.store.outages.rows.values() if row["ended_at"] is None]


async def test_slow_programme_does_not_delay_other_replies(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.barrier = Hold()
    batch = [Submission(spend(1), PATIENCE_MS, ticket=7), Submission(spend(2, amount_minor=0), PATIENCE_MS)]
    slow, quick = await delegated.host.execute(batch, "a router")
    assert (slow, approved(quick)) == (DEFERRED, True)
    collecting = asyncio.create_task(delegated.host.collect("a router"))
    await idle()
    assert not collecting.done()
    cluster.programmes.barrier.release()
    ((ticket, reply),) = await collecting
    assert (ticket, approved(reply)) == (7, True)


async def test_caller_without_a_mailbox_waits_for_the_reply(delegated: TestHost) -> None:
    assert approved(await delegated.execute_one(spend()))


async def test_concurrent_repeat_does_not_ask_the_programme_again(
    cluster: Cluster, delegated: TestHost
) -> None:
    cluster.programmes.barrier = Hold()
    first = await delegated.host.execute([Submission(spend(1), PATIENCE_MS, ticket=1)], "a router")
    again = await delegated.host.execute([Submission(spend(1), PATIENCE_MS, ticket=2)], "another router")
    assert first == again == [DEFERRED]
    cluster.programmes.barrier.release()
    ((_, reply),) = await delegated.host.collect("a router")
    ((_, same),) = await delegated.host.collect("another router")
    assert isinstance(reply, WireAnswer)
    assert isinstance(same, WireAnswer)
    assert (reply.authorization_id, same.replayed) == (same.authorization_id, True)
    assert len(cluster.programmes.questions) == 1


async def test_decline_of_the_platform_is_not_delegated(cluster: Cluster, delegated: TestHost) -> None:
    reply = await delegated.execute_one(spend(1, amount_minor=100_001))
    assert isinstance(reply, WireAnswer)
    assert (reply.response_code, cluster.programmes.questions) == ("51", [])


async def test_decision_uses_the_card_state_at_the_answer(cluster: Cluster, delegated: TestHost) -> None:
    """The programme approves two spends; the balance suffices for one."""
    cluster.programmes.barrier = Hold()
    pending = delegated.submit(spend(1, amount_minor=60_000), spend(2, amount_minor=60_000))
    await turns(lambda: len(cluster.programmes.questions) == 2)
    cluster.programmes.barrier.release()
    assert sorted(reply.response_code for reply in await pending if isinstance(reply, WireAnswer)) == [
        "00",
        "51",
    ]


async def test_stand_in_is_recorded_with_its_outage(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    assert approved(await delegated.execute_one(spend(1, amount_minor=4_000)))
    reply = await delegated.execute_one(spend(2, amount_minor=5_001))
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "61"
    kept, refused = stand_ins(cluster)
    (outage,) = open_outages(cluster)
    assert kept["outage_id"] == refused["outage_id"] == outage["id"]
    assert (kept["rule"], kept["exposure_minor"], kept["budget_used_minor"]) == (
        "within_ceilings",
        4_000,
        4_000,
    )
    assert (refused["rule"], refused["exposure_minor"]) == ("max_amount_exceeded", 0)
    assert outage["used_minor"] == 4_000
    assert cluster.store.declared_balances.rows[FIRST.id]["consumed_minor"] == 4_000


async def test_stand_ins_never_exceed_the_budget(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    replies = await delegated.execute(*(spend(number) for number in range(1, 65)))
    assert sum(map(approved, replies)) == 10
    assert sum(row["exposure_minor"] for row in stand_ins(cluster)) == 10_000
    assert len(stand_ins(cluster)) == 64
    assert len(open_outages(cluster)) == 1


async def test_concurrent_stand_ins_share_the_declared_balance(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.execute_one(declare_balance(2, card_id=FIRST.id, amount_minor=2_500))
    replies = await delegated.execute(*(spend(number) for number in range(1, 9)))
    assert sum(map(approved, replies)) == 2
    rules = [row["rule"] for row in stand_ins(cluster)]
    assert rules.count("declared_balance_exceeded") == 6
    (outage,) = open_outages(cluster)
    assert outage["used_minor"] == 2_000, "no more is reserved than the card can use"


async def test_card_without_money_is_declined_before_stand_in(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.execute_one(spend(0x77, card_id=FIRST.id))
    reply = await delegated.execute_one(authorize(2, card_id=SECOND.id, amount_minor=1))
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "51", "the second card has no money"


async def test_unreachable_programme_owner_declines(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    cluster.programmes.owner_away = True
    reply = await delegated.execute_one(spend())
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "05"
    (row,) = stand_ins(cluster)
    assert (row["rule"], row["outage_id"]) == ("budget_unreachable", None)


async def test_usable_answer_ends_the_outage_once(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.execute(spend(1), spend(2))
    (outage,) = open_outages(cluster)
    cluster.programmes.answer = lambda question: EndpointResult("declined")
    await turns(lambda: delegated.host.activation.snapshots[PROGRAMME].outage is not None)
    await delegated.execute(spend(3), spend(4))
    assert cluster.ending == [(PROGRAMME, outage["id"])] * 2
    ends = [end_outage(number, outage["id"], PROGRAMME) for number in (1, 2)]
    replies = await delegated.execute(*ends)
    assert [reply.body["ended"] for reply in replies if isinstance(reply, Done)] == [True, False]
    finished = [row for row in cluster.store.events.rows.values() if row["type"].endswith("outage.finished")]
    assert len(finished) == 1
    assert open_outages(cluster) == []
    await turns(lambda: delegated.host.activation.snapshots[PROGRAMME].outage is None)
    cluster.programmes.answer = lambda question: SILENT
    await delegated.execute_one(spend(5))
    (next_outage,) = open_outages(cluster)
    assert next_outage["id"] != outage["id"]
    assert next_outage["used_minor"] == 1_000


async def test_change_of_currency_keeps_both_periods(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.execute_one(spend(1))
    await delegated.execute_one(set_policy(2, programme_id=PROGRAMME, budget_currency="USD"))
    reply = await delegated.execute_one(spend(2))
    assert isinstance(reply, WireAnswer)
    await delegated.execute_one(set_policy(3, programme_id=PROGRAMME))
    assert approved(await delegated.execute_one(spend(3)))
    periods = [
        (row["period"], row["currency"], row["used_minor"], row["ended_at"] is None)
        for row in cluster.store.outages.rows.values()
    ]
    assert periods == [(1, "EUR", 1_000, False), (2, "USD", 0, False), (3, "EUR", 1_000, True)]
    assert [row["rule"] for row in stand_ins(cluster)] == [
        "within_ceilings",
        "currency_mismatch",
        "within_ceilings",
    ]


async def test_grant_is_durable_before_its_reply(cluster: Cluster, delegated: TestHost) -> None:
    hold = delegated.faults.hold("during", "commit")
    pending = delegated.submit(grant_stand_ins(1, (ask(),), PROGRAMME))
    await hold.reached.wait()
    await idle()
    assert not pending.done()
    assert open_outages(cluster) == []
    hold.release()
    (reply,) = await pending
    assert isinstance(reply, Granted)
    assert [row["used_minor"] for row in open_outages(cluster)] == [1_000]


async def test_next_owner_of_a_programme_continues_its_budget(cluster: Cluster, delegated: TestHost) -> None:
    """The owner dies before the reply to a grant leaves: its successor gives the same reply and counts the
    grant."""
    delegated.faults.fail("after", "commit", UnknownOutcomeError())
    first = await delegated.execute_one(grant_stand_ins(1, (ask(1, amount_minor=4_000),), PROGRAMME))
    second = await cluster.add("b", ALL_SHARDS)
    again = await second.execute_one(grant_stand_ins(1, (ask(1, amount_minor=4_000),), PROGRAMME))
    assert first == again
    more = await second.execute_one(
        grant_stand_ins(2, tuple(ask(n, amount_minor=4_000) for n in (2, 3)), PROGRAMME)
    )
    assert isinstance(more, Granted)
    assert [grant.rule for grant in more.grants] == ["within_ceilings", "max_total_exposure_exceeded"]


async def test_card_that_moves_during_a_consultation_is_decided_once(
    cluster: Cluster, delegated: TestHost
) -> None:
    cluster.programmes.barrier = Hold()
    pending = delegated.submit(spend(1))
    await turns(lambda: cluster.programmes.questions)
    await delegated.host.release(ALL_SHARDS)
    cluster.programmes.barrier.release()
    assert await pending == [NotExecuted("not_owner")]
    second = await cluster.add("b", ALL_SHARDS)
    assert approved(await second.execute_one(spend(1)))
    assert len([row for row in cluster.journal_of(FIRST.id) if row["kind"] == "authorize"]) == 1


async def test_answer_after_the_deadline_decides_nothing(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.barrier = Hold()
    pending = delegated.submit(spend(1))
    await turns(lambda: cluster.programmes.questions)
    cluster.clock.ms += PATIENCE_MS + 1
    cluster.programmes.barrier.release()
    assert await pending == [NotExecuted("deadline")]
    assert all(row["kind"] != "authorize" for row in cluster.journal_of(FIRST.id))


@pytest.mark.parametrize("point", ["before", "after"])
async def test_failed_commit_does_not_ask_the_programme_again(
    cluster: Cluster, delegated: TestHost, point: Any
) -> None:
    delegated.faults.fail(point, "commit", UnknownOutcomeError())
    assert approved(await delegated.execute_one(spend(1)))
    assert len(cluster.programmes.questions) == 1
    assert len([row for row in cluster.journal_of(FIRST.id) if row["kind"] == "authorize"]) == 1


async def test_fault_during_a_consultation_declines(cluster: Cluster, delegated: TestHost) -> None:
    def broken(_question: Any) -> EndpointResult:
        raise RuntimeError

    cluster.programmes.answer = broken
    reply = await delegated.execute_one(spend())
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "05"


async def test_stop_refuses_commands_in_consultation(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.barrier = Hold()
    pending = delegated.submit(spend(1))
    await turns(lambda: cluster.programmes.questions)
    await delegated.host.stop()
    assert await pending == [NotExecuted("not_owner")]
