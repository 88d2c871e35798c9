"""Group commit: one transaction for all commands that were decided during the previous transaction.

Each host has one committer with one transaction in flight. A decision adds its rows to the open batch; its
reply leaves only after the commit. A failed commit hands back all batches that are not durable: they build on
state that may be lost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from actors.journal.contract import Journal, JournalError, RejectedError, Rows
from actors.metrics import BUCKETS, Histogram
from engine.limits import BACKLOG_RESUME, BACKLOG_WAIT, COMMIT_BATCH_MAX

P = TypeVar("P")


class Batch(Generic[P]):
    """The rows of some commands, and the commands in the order of their decisions."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.pending: list[P] = []
        self.spoiled = False
        """Whether a command failed while it added its rows: the batch must not be written."""
        self.finished = asyncio.Event()
        """Set when the batch is durable, or when ``on_failure`` has handled it."""


class GroupCommitter(Generic[P]):
    """Commits batches one after the other until it is stopped.

    ``on_commit`` is called synchronously after each commit, and ``on_timed`` before it, with the seconds of
    the transaction. ``on_failure`` gets all batches that are not
    durable, oldest first; commands that it adds again are committed as usual. An exception of ``on_failure``
    ends the committer.
    """

    def __init__(
        self,
        journal: Journal,
        on_commit: Callable[[Batch[P]], None],
        on_failure: Callable[[list[Batch[P]], JournalError], Awaitable[None]],
        on_timed: Callable[[Batch[P], float], None] | None = None,
    ) -> None:
        self._journal = journal
        self._on_timed = on_timed
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._queue: deque[Batch[P]] = deque()
        self._wake = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._newest: Batch[P] | None = None
        self._task: asyncio.Task[None] | None = None
        self.backlog = 0
        """Number of decided commands that are not durable yet."""
        self.commits = 0
        """Number of transactions since the start."""
        self.failures = 0
        self.journal_rows = 0
        self.seconds = Histogram()
        self.batch_sizes = Histogram(BUCKETS["stanchion_commit_batch_commands"])

    def add(self, pending: P) -> Rows:
        """Add a command to the open batch, and return the rows of that batch. The caller adds the command's
        rows before its next ``await``."""
        if not self._queue or len(self._queue[-1].pending) >= COMMIT_BATCH_MAX:
            self._queue.append(Batch())
            self._wake.set()
        batch = self._newest = self._queue[-1]
        batch.pending.append(pending)
        self.backlog += 1
        if self.backlog >= BACKLOG_WAIT:
            self._has_room.clear()
        return batch.rows

    def spoil(self) -> None:
        """The newest command failed while it added its rows: hand its batch back instead of committing it."""
        self._queue[-1].spoiled = True

    async def room(self) -> None:
        """Wait while the backlog is full: from ``BACKLOG_WAIT`` commands until it is down to
        ``BACKLOG_RESUME``."""
        await self._has_room.wait()

    def start(self) -> None:
        """Start committing in the running loop."""
        self._task = asyncio.create_task(self._run(), name="group-commit")

    def on_end(self, callback: Callable[[BaseException], None]) -> None:
        """Call ``callback`` with the exception that ends the committer; no commit follows it. Call this after
        ``start``."""
        assert self._task is not None, "the committer is not started"

        def report(task: asyncio.Task[None]) -> None:
            failure = None if task.cancelled() else task.exception()
            if failure is not None:
                callback(failure)

        self._task.add_done_callback(report)

    async def stop(self) -> None:
        """Stop at once, without committing the backlog; ``drained`` waits for it. Safe to call twice."""
        if self._task is not None:
            self._task.cancel()
            # ``on_end`` has reported the exception of a committer that ended by itself.
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def drained(self) -> None:
        """Wait until all commands decided so far are durable, or ``on_failure`` has handled them."""
        if self._newest is not None:
            await self._newest.finished.wait()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._flush(self._queue.popleft())

    async def _flush(self, batch: Batch[P]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            if batch.spoiled:
                raise RejectedError("spoiled")
            await self._journal.commit(batch.rows)
        except JournalError as failure:
            self.failures += 1
            self.seconds.observe(loop.time() - began)
            await self._hand_back([batch, *self._queue], failure)
        else:
            self.commits += 1
            self.journal_rows += len(batch.rows.journal)
            self.seconds.observe(loop.time() - began)
            self.batch_sizes.observe(len(batch.pending))
            if self._on_timed is not None:
                self._on_timed(batch, loop.time() - began)
            self._on_commit(batch)
            self._finish([batch])

    async def _hand_back(self, failed: list[Batch[P]], failure: JournalError) -> None:
        self._queue.clear()
        try:
            await self._on_failure(failed, failure)
        finally:
            self._finish(failed)

    def _finish(self, batches: list[Batch[P]]) -> None:
        for batch in batches:
            self.backlog -= len(batch.pending)
            batch.finished.set()
        if self.backlog <= BACKLOG_RESUME:
            self._has_room.set()
