"""Group commit: one transaction for everything that was decided while the previous one was being flushed.

One committer for each host, one transaction in flight. Whoever decides adds rows to the open batch; after
the commit, and only then, the waiting callers get their replies. A failed commit hands every undurable
batch back: what they assumed may not be true.
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
    """Rows of some commands and whoever waits for them, in the order in which they were decided."""

    def __init__(self) -> None:
        self.rows = Rows()
        self.pending: list[P] = []
        self.spoiled = False
        """Whether a command failed half-way through adding its rows: then none of them may be written."""
        self.settled = asyncio.Event()
        """Set when the batch is durable, or has been handed back and dealt with."""


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
        self._newest: Batch[P] | None = None
        self._task: asyncio.Task[None] | None = None
        self.backlog = 0
        """Commands that are decided and not yet durable."""
        self.commits = 0
        """Transactions since the start."""
        self.failures = 0
        self.journal_rows = 0
        self.seconds = Histogram()
        self.batch_sizes = Histogram(BUCKETS["stanchion_commit_batch_commands"])

    def add(self, pending: P) -> Rows:
        """Let ``pending`` wait for the commit of the batch whose rows are returned, to be added to before
        the next ``await``."""
        if not self._queue or len(self._queue[-1].pending) >= COMMIT_BATCH_MAX:
            self._queue.append(Batch())
            self._wake.set()
        batch = self._newest = self._queue[-1]
        batch.pending.append(pending)
        self.backlog += 1
        if self.backlog >= BACKLOG_WAIT:
            self._roomy.clear()
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

    def on_end(self, told: Callable[[BaseException], None]) -> None:
        """Have ``told`` hear of the exception that ends it, once it has been started: nothing is committed
        any more after that."""
        assert self._task is not None, "it has been started"

        def tell(task: asyncio.Task[None]) -> None:
            failure = None if task.cancelled() else task.exception()
            if failure is not None:
                told(failure)

        self._task.add_done_callback(tell)

    async def stop(self) -> None:
        """Stop at once; who wants the rest to be durable waits for ``drained`` first. Twice is harmless."""
        if self._task is not None:
            self._task.cancel()
            # One that has ended by itself has told so (``on_end``).
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def drained(self) -> None:
        """Wait until everything decided so far is durable, or has been handed back and dealt with."""
        if self._newest is not None:
            await self._newest.settled.wait()

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
            self._on_commit(batch)
            self._settle([batch])

    async def _hand_back(self, failed: list[Batch[P]], failure: JournalError) -> None:
        self._queue.clear()
        try:
            await self._on_failure(failed, failure)
        finally:
            self._settle(failed)

    def _settle(self, batches: list[Batch[P]]) -> None:
        for batch in batches:
            self.backlog -= len(batch.pending)
            batch.settled.set()
        if self.backlog <= BACKLOG_RESUME:
            self._roomy.set()
