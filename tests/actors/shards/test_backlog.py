"""Overload: callers wait above ``BACKLOG_WAIT``, continue at ``BACKLOG_RESUME``, and are refused above
``BACKLOG_REFUSE``."""

from __future__ import annotations

import asyncio

from actors.journal.contract import Rows, UnknownOutcomeError
from engine.commands import Authorize
from engine.limits import BACKLOG_REFUSE, BACKLOG_RESUME, BACKLOG_WAIT, COMMIT_BATCH_MAX
from engine.replies import NotExecuted
from tests.support.actors.shards.support import FIRST, PATIENCE_MS, Cluster, TestHost, approved, idle, turns
from tests.support.engine.build import authorize


def crowd(first: int, count: int) -> list[Authorize]:
    return [authorize(number, card_id=FIRST.id, amount_minor=1) for number in range(first, first + count)]


async def test_full_backlog_makes_callers_wait_and_then_refuses(host: TestHost, cluster: Cluster) -> None:
    hold = host.faults.hold("before", "commit")
    committer = host.host.committer
    full = host.submit(*crowd(1, BACKLOG_WAIT))
    await hold.reached.wait()
    assert committer.backlog == BACKLOG_WAIT
    waiting = [host.submit(*crowd(10_000 * turn, 3_000)) for turn in range(1, 5)]
    await idle()
    assert committer.backlog == BACKLOG_WAIT, "waiting commands are not decided"
    assert BACKLOG_WAIT + 4 * 3_000 + 1_000 > BACKLOG_REFUSE
    assert await host.execute(*crowd(90_000, 1_000)) == [NotExecuted("overloaded")] * 1_000
    one_more = host.submit(*crowd(95_000, 1))
    hold.release()
    replies = [reply for batch in await asyncio.gather(*waiting, one_more) for reply in batch]
    assert len(replies) == 12_001
    assert sum(map(approved, await full)) == BACKLOG_WAIT
    assert sum(map(approved, replies)) == 10_000 - BACKLOG_WAIT, "the balance is 100.00"
    assert committer.backlog == 0
    assert len(cluster.store.transactions.rows) == BACKLOG_WAIT + 12_001


async def test_waiting_callers_continue_at_the_resume_line(host: TestHost) -> None:
    seen: list[int] = []

    def note(rows: Rows) -> None:
        seen.append(host.host.committer.backlog)

    host.faults.refuses = note
    hold = host.faults.hold("before", "commit")
    full = host.submit(*crowd(1, BACKLOG_WAIT))
    await hold.reached.wait()
    waiting = host.submit(*crowd(50_000, 1))
    await idle()
    hold.release()
    assert len(await full) == BACKLOG_WAIT
    assert await waiting
    first_with_newcomer = next(count for count in seen if count % COMMIT_BATCH_MAX)
    assert first_with_newcomer == BACKLOG_RESUME + 1


async def test_command_that_waited_beyond_its_deadline_is_not_executed(
    host: TestHost, cluster: Cluster
) -> None:
    hold = host.faults.hold("before", "commit")
    full = host.submit(*crowd(1, BACKLOG_WAIT))
    await hold.reached.wait()
    waiting = host.submit(*crowd(50_000, 5))
    await idle()
    cluster.clock.ms += PATIENCE_MS + 1
    hold.release()
    assert await waiting == [NotExecuted("deadline")] * 5
    assert len(await full) == BACKLOG_WAIT
    await turns(lambda: host.host.committer.backlog == 0)


async def test_recovery_lets_waiting_callers_continue(host: TestHost) -> None:
    host.faults.fail("before", "commit", UnknownOutcomeError())
    replies = await host.execute(*crowd(1, BACKLOG_WAIT))
    assert sum(map(approved, replies)) == BACKLOG_WAIT
    assert len(await host.execute(*crowd(50_000, 5))) == 5
