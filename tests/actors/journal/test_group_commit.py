"""The committer alone: batches, lines and failures, with a journal that does what it is told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from actors.journal.contract import Journal, JournalError, RejectedError, Rows, UnknownOutcomeError
from actors.journal.group_commit import Batch, GroupCommitter
from engine.limits import BACKLOG_RESUME, BACKLOG_WAIT, COMMIT_BATCH_MAX

Names = list[str]


class FakeJournal:
    """Commits when the gate is open; fails as often as it was told to."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[JournalError] = []
        self.committed: list[Rows] = []
        self.under_way = 0

    async def commit(self, rows: Rows) -> None:
        self.under_way += 1
        assert self.under_way == 1, "one transaction in flight"
        await self.gate.wait()
        await asyncio.sleep(0)
        self.under_way -= 1
        if self.failures:
            raise self.failures.pop(0)
        self.committed.append(rows)


class Desk:
    """A committer with a record of what became of each command."""

    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.committer: GroupCommitter[str] = GroupCommitter(
            cast(Journal, self.journal), self._on_commit, self._on_failure
        )
        self.durable: list[Names] = []
        self.failed: list[tuple[list[Names], JournalError]] = []
        self._failure = asyncio.Event()
        self.on_failure_gate = asyncio.Event()
        self.on_failure_gate.set()
        self.retry = False

    def _on_commit(self, batch: Batch[str]) -> None:
        self.durable.append(batch.pending)

    async def _on_failure(self, batches: list[Batch[str]], failure: JournalError) -> None:
        self.failed.append(([batch.pending for batch in batches], failure))
        self._failure.set()
        await self.on_failure_gate.wait()
        if self.retry:
            for batch in batches:
                for name in batch.pending:
                    self.committer.add(name)

    async def settled(self) -> None:
        await self.committer.drained()

    async def has_failed(self) -> None:
        await self._failure.wait()


@pytest.fixture
async def desk() -> AsyncIterator[Desk]:
    desk = Desk()
    desk.committer.start()
    yield desk
    await desk.committer.stop()


async def test_what_waits_together_is_committed_together(desk: Desk) -> None:
    desk.journal.gate.clear()
    desk.committer.add("first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rows = [desk.committer.add(name) for name in ("second", "third")]
    assert rows[0] is rows[1]
    assert desk.committer.backlog == 3
    desk.journal.gate.set()
    await desk.settled()
    assert desk.durable == [["first"], ["second", "third"]]
    assert desk.journal.committed[1] is rows[0]
    assert (desk.committer.backlog, desk.committer.commits) == (0, 2)


async def test_a_batch_has_a_cap(desk: Desk) -> None:
    for number in range(2 * COMMIT_BATCH_MAX + 1):
        desk.committer.add(str(number))
    await desk.settled()
    assert [len(batch) for batch in desk.durable] == [COMMIT_BATCH_MAX, COMMIT_BATCH_MAX, 1]


async def test_room_is_made_at_half_the_line(desk: Desk) -> None:
    desk.journal.gate.clear()
    for number in range(BACKLOG_WAIT - 1):
        desk.committer.add(str(number))
    await asyncio.wait_for(desk.committer.room(), 60)
    desk.committer.add("the last that fits")
    waiting = asyncio.create_task(desk.committer.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    desk.journal.gate.set()
    await waiting
    assert BACKLOG_RESUME - COMMIT_BATCH_MAX <= desk.committer.backlog <= BACKLOG_RESUME
    await desk.settled()


async def test_a_failure_hands_back_everything_undurable_oldest_first(desk: Desk) -> None:
    desk.journal.gate.clear()
    desk.committer.add("first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for number in range(COMMIT_BATCH_MAX + 1):
        desk.committer.add(str(number))
    failure = UnknownOutcomeError()
    desk.journal.failures.append(failure)
    desk.journal.gate.set()
    await desk.settled()
    ((batches, told),) = desk.failed
    assert told is failure
    assert [len(batch) for batch in batches] == [1, COMMIT_BATCH_MAX, 1]
    assert batches[0] == ["first"]
    assert desk.durable == []
    assert desk.committer.backlog == 0


async def test_what_is_added_while_a_failure_is_dealt_with_is_committed_afterwards(desk: Desk) -> None:
    desk.on_failure_gate.clear()
    desk.journal.failures.append(RejectedError())
    desk.committer.add("first")
    await desk.has_failed()
    desk.committer.add("second")
    drained = asyncio.create_task(desk.committer.drained())
    await asyncio.sleep(0)
    assert desk.durable == []
    assert not drained.done()
    desk.on_failure_gate.set()
    await drained
    assert desk.durable == [["second"]]


async def test_drained_waits_until_a_failure_has_been_dealt_with(desk: Desk) -> None:
    desk.on_failure_gate.clear()
    desk.journal.failures.append(RejectedError())
    desk.committer.add("first")
    drained = asyncio.create_task(desk.committer.drained())
    await desk.has_failed()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not drained.done()
    desk.on_failure_gate.set()
    await drained


async def test_drained_does_not_wait_for_what_comes_later(desk: Desk) -> None:
    desk.committer.add("first")
    drained = asyncio.create_task(desk.committer.drained())
    number = 0
    while not drained.done():
        desk.committer.add(str(number))
        number += 1
        assert number < 1_000, "it never ends while others keep coming"
        await asyncio.sleep(0)
    assert desk.committer.backlog > 0


async def test_what_is_handed_back_can_be_tried_again(desk: Desk) -> None:
    desk.retry = True
    desk.journal.failures += [UnknownOutcomeError(), UnknownOutcomeError()]
    desk.committer.add("first")
    for _ in range(3):
        await desk.settled()
    assert desk.durable == [["first"]]
    assert len(desk.failed) == 2
    assert desk.committer.backlog == 0


async def test_a_spoiled_batch_is_never_committed(desk: Desk) -> None:
    desk.committer.add("good")
    desk.committer.add("spoiled")
    desk.committer.spoil()
    await desk.settled()
    ((batches, failure),) = desk.failed
    assert batches == [["good", "spoiled"]]
    assert isinstance(failure, RejectedError)
    assert desk.journal.committed == []


async def test_nothing_undurable_is_nothing_to_wait_for(desk: Desk) -> None:
    await asyncio.wait_for(desk.committer.drained(), 60)
    desk.committer.add("first")
    await desk.settled()
    await asyncio.wait_for(desk.committer.drained(), 60)


async def test_stopping_twice_is_harmless(desk: Desk) -> None:
    await desk.committer.stop()
    await desk.committer.stop()


async def test_an_exception_of_the_failure_handler_ends_the_committer(desk: Desk) -> None:
    """A host that has been fenced must not go on; whoever waits for the rest is not kept."""

    async def fenced(batches: list[Batch[str]], failure: JournalError) -> None:
        raise failure

    ended: list[BaseException] = []
    desk.committer._on_failure = fenced
    desk.committer.on_end(ended.append)
    desk.journal.failures.append(failure := RejectedError())
    desk.committer.add("first")
    await asyncio.wait_for(desk.settled(), 60)
    desk.committer.add("second")
    for _ in range(10):
        await asyncio.sleep(0)
    assert (desk.durable, ended) == ([], [failure])
    await desk.committer.stop()


async def test_a_committer_that_is_stopped_has_nothing_to_tell(desk: Desk) -> None:
    ended: list[BaseException] = []
    desk.committer.on_end(ended.append)
    await desk.committer.stop()
    await asyncio.sleep(0)
    assert ended == []
