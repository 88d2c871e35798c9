"""Group commit: one transaction for everything that was decided while the previous one was being flushed.

One committer for each host, one transaction in flight. Whoever decides adds rows to the open batch; after
the commit, and only then, the waiting callers get their replies. A failed commit hands every undurable
batch back: what they assumed may not be true.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Generic, TypeVar

from actors.journal.contract import Journal, JournalError, RejectedError, Rows
from engine.limits import BACKLOG_RESUME, BACKLOG_WAIT, COMMIT_BATCH_MAX

P = TypeVar("P")


class Batch(Generic[P]):
    """Rows of some commands and whoever waits for them, in the order in which they were decided."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.pending: list[P] = []
        self.spoiled = False
        """Whether a command failed half-way through adding its rows: then none of them may be written."""

    def has_rows(self) -> bool:
        """Whether anything is to be written; a batch of mere readers only waits for its turn."""
        return bool(self.rows.journal or self.rows.idempotency)


class GroupCommitter(Generic[P]):
    """Commits batches one after the other until it is stopped.

    ``on_commit`` is called synchronously after each commit; ``on_failure`` gets all undurable batches,
    oldest first, and whatever it adds afterwards is committed as usual. An exception of ``on_failure`` ends
    the committer.
    """

    def __init__(
        self,
        journal: Journal,
        on_commit: Callable[[Batch[P]], None],
        on_failure: Callable[[list[Batch[P]], JournalError], Awaitable[None]],
    ) -> None:
        self._journal = journal
        self._on_commit = on_commit
        self._on_failure = on_failure
        self._queue: deque[Batch[P]] = deque()
        self._wake = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()
        self._drained = asyncio.Event()
        self._drained.set()
        self._task: asyncio.Task[None] | None = None
        self.backlog = 0
        """Commands that are decided and not yet durable."""
        self.commits = 0
        """Transactions since the start."""

    def add(self, pending: P) -> Rows:
        """Let ``pending`` wait for the commit of the batch whose rows are returned, to be added to before
        the next ``await``."""
        if not self._queue or len(self._queue[-1].pending) >= COMMIT_BATCH_MAX:
            self._queue.append(Batch())
        batch = self._queue[-1]
        batch.pending.append(pending)
        self.backlog += 1
        self._drained.clear()
        if self.backlog >= BACKLOG_WAIT:
            self._roomy.clear()
        self._wake.set()
        return batch.rows

    def spoil(self) -> None:
        """The command added last has failed half-way: its batch is handed back instead of being committed."""
        self._queue[-1].spoiled = True

    async def room(self) -> None:
        """Wait until the backlog is below its resume line."""
        await self._roomy.wait()

    def start(self) -> None:
        """Begin committing in the running loop."""
        self._task = asyncio.create_task(self._run(), name="group-commit")

    async def stop(self) -> None:
        """Stop after the commit under way; what is left stays unanswered. Twice is harmless."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def drained(self) -> None:
        """Wait until nothing is undurable; whoever calls this has stopped deciding."""
        await self._drained.wait()

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._flush(self._queue.popleft())

    async def _flush(self, batch: Batch[P]) -> None:
        try:
            if batch.spoiled:
                raise RejectedError("spoiled")
            if batch.has_rows():
                await self._journal.commit(batch.rows)
                self.commits += 1
        except JournalError as failure:
            failed = [batch, *self._queue]
            self._queue.clear()
            self._settle(sum(len(each.pending) for each in failed))
            await self._on_failure(failed, failure)
        else:
            self._settle(len(batch.pending))
            self._on_commit(batch)

    def _settle(self, count: int) -> None:
        self.backlog -= count
        if not self.backlog:
            self._drained.set()
        if self.backlog <= BACKLOG_RESUME:
            self._roomy.set()
