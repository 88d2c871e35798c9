"""Delegated decisions on hosts: neighbours are not held up, exposure is durable before it is granted, and
nothing of it is lost or doubled when owners die."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.journal.contract import UnknownOutcomeError
from actors.shards.reply_slots import DEFERRED
from actors.submission import Submission
from engine.decision.delegation import Consulted
from engine.replies import Done, Granted, NotExecuted, WireAnswer
from tests.actors.shards.support import (
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
from tests.engine.build import (
    ask,
    authorize,
    change_programme,
    declare_balance,
    end_outage,
    grant_stand_ins,
    set_policy,
)

SILENT = Consulted(trigger="timeout")
PROGRAMME = ADMIN.id


def spend(number: int = 1, **parts: Any) -> Any:
    return authorize(number, **({"card_id": FIRST.id} | parts))


@pytest.fixture
async def delegated(cluster: Cluster) -> TestHost:
    """One host; the programme decides by itself, and stands in up to 100.00."""
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host, cents=100_000)
    changes = {"decisioning": "delegated", "decision_url": "https://decide.example"}
    replies = await host.ask(
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


async def test_a_slow_programme_holds_up_no_neighbour(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.asking = Hold()
    batch = [Submission(spend(1), PATIENCE_MS, ticket=7), Submission(spend(2, amount_minor=0), PATIENCE_MS)]
    slow, quick = await delegated.host.execute(batch, "a router")
    assert (slow, approved(quick)) == (DEFERRED, True)
    collecting = asyncio.create_task(delegated.host.collect("a router"))
    await idle()
    assert not collecting.done()
    cluster.programmes.asking.release()
    ((ticket, reply),) = await collecting
    assert (ticket, approved(reply)) == (7, True)


async def test_a_caller_that_does_not_collect_waits(delegated: TestHost) -> None:
    assert approved(await delegated.ask_one(spend()))


async def test_the_same_message_meanwhile_is_asked_once(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.asking = Hold()
    first = await delegated.host.execute([Submission(spend(1), PATIENCE_MS, ticket=1)], "a router")
    again = await delegated.host.execute([Submission(spend(1), PATIENCE_MS, ticket=2)], "another router")
    assert first == again == [DEFERRED]
    cluster.programmes.asking.release()
    ((_, reply),) = await delegated.host.collect("a router")
    ((_, same),) = await delegated.host.collect("another router")
    assert isinstance(reply, WireAnswer)
    assert isinstance(same, WireAnswer)
    assert (reply.authorization_id, same.replayed) == (same.authorization_id, True)
    assert len(cluster.programmes.questions) == 1


async def test_what_the_platform_declines_is_asked_of_nobody(cluster: Cluster, delegated: TestHost) -> None:
    reply = await delegated.ask_one(spend(1, amount_minor=100_001))
    assert isinstance(reply, WireAnswer)
    assert (reply.response_code, cluster.programmes.questions) == ("51", [])


async def test_the_card_decides_as_it_is_when_the_answer_comes(cluster: Cluster, delegated: TestHost) -> None:
    """Two spends that the programme approves, and money for one of them."""
    cluster.programmes.asking = Hold()
    asking = delegated.asking(spend(1, amount_minor=60_000), spend(2, amount_minor=60_000))
    await turns(lambda: len(cluster.programmes.questions) == 2)
    cluster.programmes.asking.release()
    assert sorted(reply.response_code for reply in await asking if isinstance(reply, WireAnswer)) == [
        "00",
        "51",
    ]


async def test_a_stand_in_is_recorded_with_its_outage(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    assert approved(await delegated.ask_one(spend(1, amount_minor=4_000)))
    reply = await delegated.ask_one(spend(2, amount_minor=5_001))
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


async def test_exactly_as_many_as_the_budget_has_room_for(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    replies = await delegated.ask(*(spend(number) for number in range(1, 65)))
    assert sum(map(approved, replies)) == 10
    assert sum(row["exposure_minor"] for row in stand_ins(cluster)) == 10_000
    assert len(stand_ins(cluster)) == 64
    assert len(open_outages(cluster)) == 1


async def test_stand_ins_of_one_card_do_not_count_on_the_same_declaration(
    cluster: Cluster, delegated: TestHost
) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.ask_one(declare_balance(2, card_id=FIRST.id, amount_minor=2_500))
    replies = await delegated.ask(*(spend(number) for number in range(1, 9)))
    assert sum(map(approved, replies)) == 2
    rules = [row["rule"] for row in stand_ins(cluster)]
    assert rules.count("declared_balance_exceeded") == 6
    (outage,) = open_outages(cluster)
    assert outage["used_minor"] == 2_000, "what the card could not use was never reserved"


async def test_no_card_without_a_declared_balance(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.ask_one(spend(0x77, card_id=FIRST.id))
    reply = await delegated.ask_one(authorize(2, card_id=SECOND.id, amount_minor=1))
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "51", "the second card has no money, so nobody was asked"


async def test_an_owner_that_cannot_be_asked_declines(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    cluster.programmes.owner_away = True
    reply = await delegated.ask_one(spend())
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "05"
    (row,) = stand_ins(cluster)
    assert (row["rule"], row["outage_id"]) == ("budget_unreachable", None)


async def test_a_usable_answer_ends_the_outage_once(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.ask(spend(1), spend(2))
    (outage,) = open_outages(cluster)
    cluster.programmes.answer = lambda question: Consulted("declined")
    await turns(lambda: delegated.host.activation.snapshots[PROGRAMME].outage is not None)
    await delegated.ask(spend(3), spend(4))
    assert cluster.ending == [(PROGRAMME, outage["id"])] * 2
    ends = [end_outage(number, outage["id"], PROGRAMME) for number in (1, 2)]
    replies = await delegated.ask(*ends)
    assert [reply.body["ended"] for reply in replies if isinstance(reply, Done)] == [True, False]
    finished = [row for row in cluster.store.events.rows.values() if row["type"].endswith("outage.finished")]
    assert len(finished) == 1
    assert open_outages(cluster) == []
    await turns(lambda: delegated.host.activation.snapshots[PROGRAMME].outage is None)
    cluster.programmes.answer = lambda question: SILENT
    await delegated.ask_one(spend(5))
    (next_outage,) = open_outages(cluster)
    assert next_outage["id"] != outage["id"]
    assert next_outage["used_minor"] == 1_000


async def test_a_change_of_currency_keeps_both_periods(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.answer = lambda question: SILENT
    await delegated.ask_one(spend(1))
    await delegated.ask_one(set_policy(2, programme_id=PROGRAMME, budget_currency="USD"))
    reply = await delegated.ask_one(spend(2))
    assert isinstance(reply, WireAnswer)
    await delegated.ask_one(set_policy(3, programme_id=PROGRAMME))
    assert approved(await delegated.ask_one(spend(3)))
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


async def test_a_grant_is_durable_before_it_is_given(cluster: Cluster, delegated: TestHost) -> None:
    hold = delegated.faults.hold("during", "commit")
    asking = delegated.asking(grant_stand_ins(1, (ask(),), PROGRAMME))
    await hold.reached.wait()
    await idle()
    assert not asking.done()
    assert open_outages(cluster) == []
    hold.release()
    (reply,) = await asking
    assert isinstance(reply, Granted)
    assert [row["used_minor"] for row in open_outages(cluster)] == [1_000]


async def test_the_next_owner_of_a_programme_goes_on_from_the_journal(
    cluster: Cluster, delegated: TestHost
) -> None:
    """The owner dies with a grant on its way: the successor gives the same answer again, and knows of it."""
    delegated.faults.fail("after", "commit", UnknownOutcomeError())
    first = await delegated.ask_one(grant_stand_ins(1, (ask(1, amount_minor=4_000),), PROGRAMME))
    second = await cluster.add("b", ALL_SHARDS)
    again = await second.ask_one(grant_stand_ins(1, (ask(1, amount_minor=4_000),), PROGRAMME))
    assert first == again
    more = await second.ask_one(
        grant_stand_ins(2, tuple(ask(n, amount_minor=4_000) for n in (2, 3)), PROGRAMME)
    )
    assert isinstance(more, Granted)
    assert [grant.rule for grant in more.grants] == ["within_ceilings", "max_total_exposure_exceeded"]


async def test_a_card_that_moved_while_its_programme_was_asked(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.asking = Hold()
    asking = delegated.asking(spend(1))
    await turns(lambda: cluster.programmes.questions)
    await delegated.host.release(ALL_SHARDS)
    cluster.programmes.asking.release()
    assert await asking == [NotExecuted("not_owner")]
    second = await cluster.add("b", ALL_SHARDS)
    assert approved(await second.ask_one(spend(1)))
    assert len([row for row in cluster.journal_of(FIRST.id) if row["kind"] == "authorize"]) == 1


async def test_an_answer_that_took_too_long_decides_nothing(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.asking = Hold()
    asking = delegated.asking(spend(1))
    await turns(lambda: cluster.programmes.questions)
    cluster.clock.ms += PATIENCE_MS + 1
    cluster.programmes.asking.release()
    assert await asking == [NotExecuted("deadline")]
    assert all(row["kind"] != "authorize" for row in cluster.journal_of(FIRST.id))


@pytest.mark.parametrize("point", ["before", "after"])
async def test_a_commit_that_fails_asks_the_programme_no_second_time(
    cluster: Cluster, delegated: TestHost, point: Any
) -> None:
    delegated.faults.fail(point, "commit", UnknownOutcomeError())
    assert approved(await delegated.ask_one(spend(1)))
    assert len(cluster.programmes.questions) == 1
    assert len([row for row in cluster.journal_of(FIRST.id) if row["kind"] == "authorize"]) == 1


async def test_a_fault_of_ours_approves_nothing(cluster: Cluster, delegated: TestHost) -> None:
    def broken(_question: Any) -> Consulted:
        raise RuntimeError

    cluster.programmes.answer = broken
    reply = await delegated.ask_one(spend())
    assert isinstance(reply, WireAnswer)
    assert reply.response_code == "05"


async def test_a_host_that_stops_leaves_nobody_waiting(cluster: Cluster, delegated: TestHost) -> None:
    cluster.programmes.asking = Hold()
    asking = delegated.asking(spend(1))
    await turns(lambda: cluster.programmes.questions)
    await delegated.host.stop()
    assert await asking == [NotExecuted("not_owner")]
