"""A shard host: many shards, one event loop, one group committer.

A command passes through five steps:

1. *Deduplicate* (``deduplication``): was it executed before, or is it in flight?
2. *Admit* (``admission``): does this host own its shard, and is there time left?
3. *Prefetch*: read its card or programme if necessary, and consult a delegated programme (``consultations``).
4. *Decide* (``decider``): synchronously change the tentative state and add rows to the open batch.
5. *Commit* (``committing``, ``announcing``): reply when the batch is durable.

The host is a plain object. ``actors.cluster`` runs it in a Ray actor; tests and simulations run it in a loop
of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import structlog

from actors.cards.activation import Activation
from actors.cards.answers import RecentAnswers
from actors.cards.reading import Wanted
from actors.clock import Clock
from actors.journal.contract import Journal, JournalError, UnknownOutcomeError
from actors.journal.group_commit import Batch, GroupCommitter
from actors.shards.admission import Admission
from actors.shards.announcing import Announcements, Publish
from actors.shards.committing import Confirmation
from actors.shards.consultations import ProgrammeCalls
from actors.shards.counts import HostCounts
from actors.shards.decider import Decider
from actors.shards.decision_log import log_decision
from actors.shards.deduplication import Deduplication
from actors.shards.in_flight import InFlight
from actors.shards.pending import Pending
from actors.shards.recovery import Recovery
from actors.shards.reply_slots import Mailboxes, ReplyBatch, ReplySlot
from actors.submission import Submission
from actors.tracing import Tracer, Value, command_name
from actors.vault import Vault
from engine.commands import target_of
from engine.ids import shard_of
from engine.limits import (
    ACTIVE_CARDS_MAX,
    BACKLOG_REFUSE,
    COLLECT_SECONDS,
    HOST_STOP_SECONDS,
    RELEASE_SECONDS,
)
from engine.programmes.programme import Programme
from engine.replies import NotExecuted, Reply

_log = structlog.get_logger(__name__)


class ShardHost:
    """Connects the steps of execution, and owns shards.

    ``publish`` announces a programme's new version to every host. ``fenced`` is called when another host owns
    a shard of this one: the process must end at once. ``programme_calls`` calls delegated programmes.
    """

    def __init__(
        self,
        journal: Journal,
        vault: Vault,
        clock: Clock,
        publish: Publish,
        fenced: Callable[[], None],
        programme_calls: ProgrammeCalls,
        active_cards_max: int = ACTIVE_CARDS_MAX,
        log_decisions: bool = False,
        tracer: Tracer | None = None,
    ) -> None:
        self._journal = journal
        self._tracer = tracer
        self._clock = clock
        self.counts = HostCounts()
        self.epochs: dict[int, int] = {}
        answers = RecentAnswers()
        self.activation = Activation(
            journal, self._on_loaded, answers.remember_stored, active_cards_max, clock.now_ms
        )
        self.decider = Decider(self.activation, self.epochs, vault, answers)
        self.committer: GroupCommitter[Pending] = GroupCommitter(
            journal, self._on_commit, self._on_failure, None if tracer is None else self._trace_commit
        )
        self._in_flight = InFlight(self.counts)
        self.announcements = Announcements(journal, publish, self._in_flight)
        self._confirmation = Confirmation(
            self.activation,
            answers,
            self.announcements,
            self._in_flight,
            self.counts,
            clock,
            vault,
            log_decision if log_decisions else None,
        )
        self._admission = Admission(
            self.activation,
            self.decider,
            self.committer,
            answers,
            self._confirmation,
            self._in_flight,
            clock,
            programme_calls,
            self.epochs,
        )
        self.consultations = self._admission.consultations
        self._deduplication = Deduplication(self._in_flight, answers, self._admission, self._confirmation)
        self._recovery = Recovery(
            journal,
            self.activation,
            answers,
            self._admission,
            self._confirmation,
            self._in_flight,
            self.epochs,
            fenced,
        )
        self._mailboxes = Mailboxes()
        self._arriving = 0
        """Commands that wait for room in the committer's backlog."""

    # --- ownership ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start committing; the host owns no shard yet."""
        self.committer.start()

    async def stop(self) -> None:
        """Make all decisions durable and stop; later commands are refused (``not_owner``)."""
        self._admission.releasing.update(self.epochs)
        await self.consultations.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOST_STOP_SECONDS):
                await self.committer.drained()
        await self.committer.stop()
        await self.activation.stop()
        self._admission.refuse_cold()
        await self.announcements.wait()
        for pending in self._in_flight.all():
            # The journal is unavailable: the next owner finds out whether these commands were executed.
            self._in_flight.resolve(pending, NotExecuted("unavailable"))
        await self._deduplication.wait()
        await self._journal.close()

    async def take(self, shards: Collection[int], expected: Mapping[int, int] | None = None) -> None:
        """Become the owner of ``shards``. Their state is read after their new epochs are durable.
        ``expected`` as for ``Journal.take``."""
        epochs = await self._journal.take(shards, expected)
        self.activation.drop_shards(epochs)
        self.epochs.update(epochs)

    async def release(self, shards: Collection[int]) -> None:
        """Refuse new commands for ``shards``, make old ones durable, and give up ownership. Raises
        TimeoutError when they do not become durable in time; the host then keeps the shards and serves them.

        The epochs are kept until the end, because recovery from a failed commit has to renew them.
        """
        releasing = self._admission.releasing
        releasing.update(shards)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self.committer.drained()
        except BaseException:
            releasing.difference_update(shards)
            raise
        known = {shard: epoch for shard in shards if (epoch := self.epochs.pop(shard, None)) is not None}
        releasing.difference_update(shards)
        self.activation.drop_shards(shards)
        with suppress(UnknownOutcomeError):
            # Optional: the next owner's take ends this host's epochs in any case.
            await self._journal.release(tuple(known), known)

    def programme_changed(self, programme: Programme) -> None:
        """A programme has a new version; later decisions use it."""
        self.activation.learn(programme)

    # --- calls --------------------------------------------------------------------------------------------

    async def execute(self, submissions: list[Submission], caller: str | None = None) -> list[Reply]:
        """Execute a batch; returns the replies in the order of ``submissions``. Each reply is durable, or
        says that the command was not executed. A command that waits for a programme's endpoint is
        ``Deferred`` if ``caller`` collects replies."""
        if self._backlog + self._arriving + len(submissions) > BACKLOG_REFUSE:
            self.counts.refused("overloaded", len(submissions))
            return [NotExecuted("overloaded")] * len(submissions)
        if not submissions:
            return []
        now = self._clock.monotonic()
        self._arriving += len(submissions)
        try:
            await self.committer.room()
        finally:
            self._arriving -= len(submissions)
        batch = ReplyBatch(len(submissions), None if caller is None else self._mailboxes.of(caller))
        slots = [self._enter(each, batch, now) for each in submissions]
        await batch.wait()
        return [slot.result() for slot in slots]

    async def execute_decodable(
        self, submissions: list[Submission | None], caller: str | None = None
    ) -> list[Reply]:
        """Like ``execute``, for a decoded batch: ``None`` stands for a submission that could not be decoded,
        and its reply is ``faulty``."""
        decodable = [each for each in submissions if each is not None]
        replies = await self.execute(decodable, caller)
        undecodable = len(submissions) - len(decodable)
        if not undecodable:
            return replies
        _log.error("commands_undecodable", commands=undecodable)
        self.counts.refused("faulty", undecodable)
        remaining = iter(replies)
        return [NotExecuted("faulty") if each is None else next(remaining) for each in submissions]

    async def collect(self, caller: str) -> list[tuple[int, Reply]]:
        """Wait for deferred replies to ``caller``; returns them by ticket."""
        return await self._mailboxes.of(caller).collect(COLLECT_SECONDS)

    @property
    def _backlog(self) -> int:
        """Commands that wait for this host and not for a programme's endpoint."""
        return len(self._in_flight) - self.consultations.open

    def _enter(self, submission: Submission, batch: ReplyBatch, now: float) -> ReplySlot:
        slot = ReplySlot(batch, submission.ticket)
        command, deadline = submission.command, now + submission.remaining_ms / 1000
        shard = shard_of(target_of(command))
        pending = Pending(submission, command, shard, deadline, slot, now)
        if self._tracer is not None and submission.traceparent is not None:
            self._trace(self._tracer, pending)
        self._deduplication.enter(pending)
        return slot

    # --- traces -------------------------------------------------------------------------------------------

    @staticmethod
    def _trace(tracer: Tracer, pending: Pending) -> None:
        submission, command = pending.submission, pending.command
        attributes: dict[str, Value | None] = {
            "stanchion.command": command_name(command),
            "stanchion.trace": submission.trace,
            "stanchion.shard": pending.shard,
            "stanchion.card_id": getattr(command, "card_id", None),
        }
        pending.span = tracer.start("host", submission.traceparent, kind="server", attributes=attributes)

    def _trace_commit(self, batch: Batch[Pending], seconds: float) -> None:
        """Record the transaction of ``batch`` below the span of each command in it."""
        assert self._tracer is not None, "called only with a tracer"
        attributes = {"stanchion.commands": len(batch.pending), "stanchion.rows": len(batch.rows.journal)}
        for pending in batch.pending:
            if pending.span is not None:
                self._tracer.record("commit", pending.span, seconds, attributes)

    # --- events -------------------------------------------------------------------------------------------

    def _on_loaded(self, wanted: Wanted, unreadable: Collection[str]) -> None:
        self._admission.on_loaded(wanted, unreadable)

    def _on_commit(self, batch: Batch[Pending]) -> None:
        self._confirmation.confirm(batch.pending)
        self.activation.passivate_surplus()

    async def _on_failure(self, failed: list[Batch[Pending]], failure: JournalError) -> None:
        await self._recovery.recover([pending for batch in failed for pending in batch.pending], failure)
