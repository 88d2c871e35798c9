"""The committer with a fake journal: batches, backlog limits and failures."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import cast

import pytest

from actors.journal.contract import Journal, JournalError, RejectedError, Rows, UnknownOutcomeError
from actors.journal.group_commit import Batch, GroupCommitter
from engine.limits import BACKLOG_RESUME, BACKLOG_WAIT, COMMIT_BATCH_MAX

pytestmark = pytest.mark.virtual_time

Commands = list[str]


class FakeJournal:
    """Commits while the gate is open. Raises the ``failures`` first."""

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


class Recorder:
    """A committer, and a record of its durable and failed commands."""

    def __init__(self) -> None:
        self.journal = FakeJournal()
        self.committer: GroupCommitter[str] = GroupCommitter(
            cast(Journal, self.journal), self._on_commit, self._on_failure
        )
        self.durable: list[Commands] = []
        self.failed: list[tuple[list[Commands], JournalError]] = []
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
async def recorder() -> AsyncIterator[Recorder]:
    recorder = Recorder()
    recorder.committer.start()
    yield recorder
    await recorder.committer.stop()


async def test_commands_decided_during_a_commit_form_the_next_batch(recorder: Recorder) -> None:
    recorder.journal.gate.clear()
    recorder.committer.add("first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    rows = [recorder.committer.add(name) for name in ("second", "third")]
    assert rows[0] is rows[1]
    assert recorder.committer.backlog == 3
    recorder.journal.gate.set()
    await recorder.settled()
    assert recorder.durable == [["first"], ["second", "third"]]
    assert recorder.journal.committed[1] is rows[0]
    assert (recorder.committer.backlog, recorder.committer.commits) == (0, 2)


async def test_batch_has_a_maximal_size(recorder: Recorder) -> None:
    for number in range(2 * COMMIT_BATCH_MAX + 1):
        recorder.committer.add(str(number))
    await recorder.settled()
    assert [len(batch) for batch in recorder.durable] == [COMMIT_BATCH_MAX, COMMIT_BATCH_MAX, 1]


async def test_backlog_accepts_commands_again_at_the_resume_limit(recorder: Recorder) -> None:
    recorder.journal.gate.clear()
    for number in range(BACKLOG_WAIT - 1):
        recorder.committer.add(str(number))
    await asyncio.wait_for(recorder.committer.room(), 60)
    recorder.committer.add("the last that fits")
    waiting = asyncio.create_task(recorder.committer.room())
    await asyncio.sleep(0)
    assert not waiting.done()
    recorder.journal.gate.set()
    await waiting
    assert BACKLOG_RESUME - COMMIT_BATCH_MAX <= recorder.committer.backlog <= BACKLOG_RESUME
    await recorder.settled()


async def test_failure_hands_back_all_undurable_batches_oldest_first(recorder: Recorder) -> None:
    recorder.journal.gate.clear()
    recorder.committer.add("first")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    for number in range(COMMIT_BATCH_MAX + 1):
        recorder.committer.add(str(number))
    failure = UnknownOutcomeError()
    recorder.journal.failures.append(failure)
    recorder.journal.gate.set()
    await recorder.settled()
    ((batches, reported),) = recorder.failed
    assert reported is failure
    assert [len(batch) for batch in batches] == [1, COMMIT_BATCH_MAX, 1]
    assert batches[0] == ["first"]
    assert recorder.durable == []
    assert recorder.committer.backlog == 0


async def test_commands_added_during_failure_handling_are_committed_after_it(recorder: Recorder) -> None:
    recorder.on_failure_gate.clear()
    recorder.journal.failures.append(RejectedError())
    recorder.committer.add("first")
    await recorder.has_failed()
    recorder.committer.add("second")
    drained = asyncio.create_task(recorder.committer.drained())
    await asyncio.sleep(0)
    assert recorder.durable == []
    assert not drained.done()
    recorder.on_failure_gate.set()
    await drained
    assert recorder.durable == [["second"]]


async def test_drained_waits_for_failure_handling(recorder: Recorder) -> None:
    recorder.on_failure_gate.clear()
    recorder.journal.failures.append(RejectedError())
    recorder.committer.add("first")
    drained = asyncio.create_task(recorder.committer.drained())
    await recorder.has_failed()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not drained.done()
    recorder.on_failure_gate.set()
    await drained


async def test_drained_does_not_wait_for_later_commands(recorder: Recorder) -> None:
    recorder.committer.add("first")
    drained = asyncio.create_task(recorder.committer.drained())
    number = 0
    while not drained.done():
        recorder.committer.add(str(number))
        number += 1
        assert number < 1_000, "drained does not return while commands are added"
        await asyncio.sleep(0)
    assert recorder.committer.backlog > 0


async def test_handed_back_commands_can_be_added_again(recorder: Recorder) -> None:
    recorder.retry = True
    recorder.journal.failures += [UnknownOutcomeError(), UnknownOutcomeError()]
    recorder.committer.add("first")
    for _ in range(3):
        await recorder.settled()
    assert recorder.durable == [["first"]]
    assert len(recorder.failed) == 2
    assert recorder.committer.backlog == 0


async def test_spoiled_batch_is_not_committed(recorder: Recorder) -> None:
    recorder.committer.add("good")
    recorder.committer.add("spoiled")
    recorder.committer.spoil()
    await recorder.settled()
    ((batches, failure),) = recorder.failed
    assert batches == [["good", "spoiled"]]
    assert isinstance(failure, RejectedError)
    assert recorder.journal.committed == []


async def test_drained_returns_at_once_without_backlog(recorder: Recorder) -> None:
    await asyncio.wait_for(recorder.committer.drained(), 60)
    recorder.committer.add("first")
    await recorder.settled()
    await asyncio.wait_for(recorder.committer.drained(), 60)


async def test_committer_can_be_stopped_twice(recorder: Recorder) -> None:
    await recorder.committer.stop()
    await recorder.committer.stop()


async def test_exception_of_the_failure_handler_ends_the_committer(recorder: Recorder) -> None:
    """A fenced host must not commit again, and ``drained`` must return."""

    async def fenced(batches: list[Batch[str]], failure: JournalError) -> None:
        raise failure

    ended: list[BaseException] = []
    recorder.committer._on_failure = fenced
    recorder.committer.on_end(ended.append)
    recorder.journal.failures.append(failure := RejectedError())
    recorder.committer.add("first")
    await asyncio.wait_for(recorder.settled(), 60)
    recorder.committer.add("second")
    for _ in range(10):
        await asyncio.sleep(0)
    assert (recorder.durable, ended) == ([], [failure])
    await recorder.committer.stop()


async def test_stopped_committer_reports_no_exception(recorder: Recorder) -> None:
    ended: list[BaseException] = []
    recorder.committer.on_end(ended.append)
    await recorder.committer.stop()
    await asyncio.sleep(0)
    assert ended == []
