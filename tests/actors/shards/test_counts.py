"""A host's counters. Decisions are counted when they are durable."""

from __future__ import annotations

from actors.journal.contract import RejectedError
from actors.metrics import Distribution
from engine.commands import Command
from engine.decision.delegation import EndpointResult
from engine.limits import BACKLOG_REFUSE
from tests.support.actors.shards.support import ADMIN, FIRST, Cluster, TestHost, idle
from tests.support.engine.build import (
    authorize,
    change_programme,
    declare_balance,
    end_outage,
    load,
    set_policy,
)

APPROVED = ("approved", "", "platform")


def spend(number: int, cents: int = 100) -> Command:
    return authorize(number, card_id=FIRST.id, amount_minor=cents)


def decisions(host: TestHost) -> object:
    return host.host.counts.figures()["stanchion_decisions"]


def decision_times(host: TestHost) -> Distribution:
    figure = host.host.counts.figures()["stanchion_decision_seconds"]
    assert isinstance(figure, Distribution)
    return figure


async def test_decisions_are_counted_by_outcome_reason_and_decider(host: TestHost) -> None:
    await host.execute(spend(1), spend(2), spend(3, 10**9))
    await host.execute(spend(1))
    assert decisions(host) == {APPROVED: 2, ("declined", "insufficient_funds", "platform"): 1}


async def test_decision_is_counted_when_it_is_durable(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("before", "commit")
    pending = host.submit(spend(1))
    await hold.reached.wait()
    await idle()
    assert decisions(host) == {}
    cluster.clock.ms += 20
    hold.release()
    await pending
    assert decisions(host) == {APPROVED: 1}
    assert decision_times(host).total > 0.0199
    assert sum(decision_times(host).counts) == 1


async def test_failed_commit_counts_each_decision_once(host: TestHost) -> None:
    committer = host.host.committer
    before = committer.commits, sum(committer.batch_sizes.figure().counts), committer.journal_rows
    host.faults.fail("during", "commit", RejectedError("a fault"))
    await host.execute(spend(1), spend(2))
    assert decisions(host) == {APPROVED: 2}
    assert committer.failures == 1
    assert sum(committer.seconds.figure().counts) == committer.commits + 1
    assert sum(committer.batch_sizes.figure().counts) - before[1] == committer.commits - before[0]


async def test_batches_and_rows_are_counted(host: TestHost) -> None:
    committer = host.host.committer
    rows, sizes = committer.journal_rows, committer.batch_sizes.figure()
    await host.execute(*(spend(number) for number in range(1, 6)))
    assert committer.journal_rows - rows == 5
    assert committer.batch_sizes.figure().total - sizes.total == 5


async def test_refusals_are_counted_by_reason(host: TestHost) -> None:
    await host.host.execute([])
    await host.execute(spend(1), remaining_ms=-1)
    await host.execute(*(spend(number) for number in range(BACKLOG_REFUSE + 1)))
    refused = host.host.counts.figures()["stanchion_refusals"]
    assert refused == {("deadline",): 1, ("overloaded",): BACKLOG_REFUSE + 1}
    assert decisions(host) == {}


async def test_stand_ins_and_outages_are_counted_once(host: TestHost, cluster: Cluster) -> None:
    await host.execute(
        load(7, amount_minor=100_000, card_id=FIRST.id),
        change_programme(1, programme_id=ADMIN.id, decisioning="delegated", decision_url="https://d.example"),
        set_policy(1, programme_id=ADMIN.id),
        declare_balance(1, card_id=FIRST.id, amount_minor=50_000),
    )
    cluster.programmes.answer = lambda question: EndpointResult(trigger="timeout")
    for number, cents in enumerate((3_000, 5_001, 4_000), start=1):
        await host.execute_one(spend(number, cents))
    cluster.programmes.answer = lambda question: EndpointResult(trigger="connection_error")
    await host.execute_one(spend(4, 4_000))
    await host.execute_one(spend(3, 4_000))
    [row] = cluster.store.outages.rows.values()
    ending = [end_outage(number, row["id"], ADMIN.id) for number in (8, 9)]
    await host.execute(*ending, ending[0])
    figures = host.host.counts.figures()
    assert figures["stanchion_stand_ins"] == {
        ("within_ceilings", "timeout"): 2,
        ("max_amount_exceeded", "timeout"): 1,
        ("max_total_exposure_exceeded", "connection_error"): 1,
    }
    assert figures["stanchion_stand_in_exposure_minor"] == {("EUR",): 7_000}
    assert (figures["stanchion_outages_begun"], figures["stanchion_outages_ended"]) == (1, 1)
