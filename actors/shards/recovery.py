"""What a host does after a commit that failed, or of which nobody knows whether it happened.

Tentative state is never repaired. Everything the undurable commands touched is forgotten; if the outcome is
unknown, new epochs are taken first, which a commit still under way somewhere cannot survive; then the
journal itself says which of the commands were executed. Those get their stored replies. The others were
certainly not executed: after an unknown commit they are admitted again while they have time left; after a
refused one they are committed again together, and in halves where that is refused too, so that neither
repeated nor poisonous commands take others with them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from itertools import chain, repeat
from typing import Literal, Protocol, TypeVar

import msgspec
import structlog

from actors.cards.activation import Activation
from actors.cards.answers import RecentAnswers, reply_from_journal
from actors.journal.contract import (
    Journal,
    JournalError,
    RejectedError,
    Rows,
    StaleEpochError,
    StoredReply,
    StoredResponse,
    UnknownOutcomeError,
)
from actors.shards.pending import Pending
from engine.commands import target_of
from engine.iso8583.identity import undo_key
from engine.limits import COMMIT_BATCH_MAX
from engine.replies import NotExecuted, Reply

T = TypeVar("T")

_log = structlog.get_logger(__name__)

PAUSE_SECONDS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Pauses between attempts to reach the journal again; the last one repeats."""


Prepared = Literal["decided", "answered", "spoiled"]
"""Its reply waits for the commit; or it has or will have its reply without one; or our own code failed with
it, and no row of its batch may be written."""


class Recoverable(Protocol):
    """What recovery asks of its host."""

    activation: Activation
    answers: RecentAnswers
    epochs: dict[int, int]

    def hold_back(self) -> None:
        """Admit nothing until ``carry_on``."""

    def carry_on(self, left: list[Pending]) -> None:
        """Admit ``left``, then whatever has been held back."""

    async def prepare(self, pending: Pending, rows: Rows) -> Prepared:
        """Bring in what the command needs and decide it into ``rows``."""

    def confirm(self, pendings: Iterable[Pending]) -> None:
        """The commands' commit has happened."""

    def answer_executed(self, pending: Pending, reply: Reply) -> bool:
        """The command turned out to have been executed before; false when it has to be admitted before it may
        have its reply."""

    def answer_claimed(self, pending: Pending, response: StoredResponse) -> None:
        """Another request has executed the command's idempotency key."""

    def resolve(self, pending: Pending, reply: Reply) -> None:
        """Give the caller ``reply``."""


class Recovery:
    """Runs inside the committer's task, so nothing else is committed meanwhile."""

    def __init__(self, host: Recoverable, journal: Journal, fenced: Callable[[], None]) -> None:
        self._host = host
        self._journal = journal
        self._fenced = fenced

    async def recover(self, pendings: list[Pending], failure: JournalError) -> None:
        """Bring host and callers back to what the journal says; calls ``fenced`` when another host is the
        owner."""
        self._host.hold_back()
        self._forget(pendings)
        try:
            left = await self._reconcile(pendings, failure)
        except StaleEpochError:
            self._fenced()
            raise
        self._host.carry_on(left)

    def give_up(self, pending: Pending) -> None:
        """The command cannot be executed at all: its caller hears so and nothing of it remains."""
        self._forget([pending])
        self._host.resolve(pending, NotExecuted("faulty"))

    async def _reconcile(self, pendings: list[Pending], failure: JournalError) -> list[Pending]:
        """Answer whoever can be answered; returns who is to be admitted again."""
        if isinstance(failure, StaleEpochError):
            raise failure
        if isinstance(failure, UnknownOutcomeError):
            await self._renew()
        left = await self._answer_executed(pendings)
        return await self._commit_again(left) if isinstance(failure, RejectedError) else left

    def _forget(self, pendings: list[Pending]) -> None:
        activation = self._host.activation
        activation.drop_cards({target_of(pending.command) for pending in pendings})
        for pending in pendings:
            if pending.programme is not None:
                activation.programmes.pop(pending.programme.config.id, None)
            pending.undo()

    async def _renew(self) -> None:
        """Cut the connections and take new epochs, however long the journal is away."""
        await self._journal.reset()
        epochs = self._host.epochs
        epochs |= await self._until_reached(lambda: self._journal.renew(tuple(epochs), epochs))

    async def _until_reached(self, attempt: Callable[[], Awaitable[T]]) -> T:
        pauses: Iterator[float] = chain(PAUSE_SECONDS, repeat(PAUSE_SECONDS[-1]))
        while True:
            try:
                return await attempt()
            except UnknownOutcomeError:
                await asyncio.sleep(next(pauses))

    async def _answer_executed(self, pendings: list[Pending]) -> list[Pending]:
        """Answer from the journal whoever was executed; returns the others, in their order."""
        keys = [pending.command.command_key for pending in pendings]
        digests = [claim.key_digest for pending in pendings if (claim := pending.submission.claim)]
        # An undoing is younger than what it undoes.
        wanted = [undo_key(key) for key in keys] + keys
        found = await self._until_reached(lambda: self._journal.find(wanted))
        stored = {key: found[key] for key in wanted if key in found}
        # Who repeats an old message once may well do so again, and each time would cost a refused commit.
        self._host.answers.remember_stored(stored)
        responses = (
            await self._until_reached(lambda: self._journal.find_responses(digests)) if digests else {}
        )
        left = []
        for pending in pendings:
            executed = stored.get(pending.command.command_key)
            claim = pending.submission.claim
            response = responses.get(claim.key_digest) if claim else None
            if executed is not None:
                if not self._answer_stored(pending, executed):
                    left.append(pending)
            elif response is not None:
                self._host.answer_claimed(pending, response)
            else:
                left.append(pending)
        return left

    def _answer_stored(self, pending: Pending, executed: StoredReply) -> bool:
        try:
            reply = reply_from_journal(pending.command, executed)
        except (msgspec.MsgspecError, ValueError) as fault:
            _log.error("reply_unreadable", id=pending.command.id, error=type(fault).__name__)
            self._host.resolve(pending, NotExecuted("faulty"))
            return True
        return self._host.answer_executed(pending, self._host.answers.still_true(pending.command, reply))

    async def _commit_again(self, pendings: list[Pending]) -> list[Pending]:
        """Commit commands in as few transactions as the journal accepts; returns those that are left if the
        journal goes away meanwhile."""
        groups = deque(
            pendings[start : start + COMMIT_BATCH_MAX] for start in range(0, len(pendings), COMMIT_BATCH_MAX)
        )
        while groups:
            group = groups.popleft()
            try:
                groups.extendleft(reversed(await self._commit_group(group)))
            except UnknownOutcomeError:
                left = [*group, *chain.from_iterable(groups)]
                self._forget(left)
                await self._renew()
                return await self._answer_executed(left)
        return []

    async def _commit_group(self, group: list[Pending]) -> list[list[Pending]]:
        """Commit a group in one transaction; returns the groups to be tried next. A refused group loses the
        commands that turn out to have been executed, or is split: so one poisonous command costs a few
        transactions, and no other command its execution. Who has its reply leaves ``group``."""
        rows = Rows()
        for pending in tuple(group):
            prepared = await self._host.prepare(pending, rows)
            if prepared != "decided":
                group.remove(pending)
            if prepared == "spoiled":
                self._forget(group)
                self.give_up(pending)
                return [group]
        if not group:
            return []
        try:
            await self._journal.commit(rows)
        except RejectedError:
            return await self._split(group)
        self._host.confirm(group)
        return []

    async def _split(self, refused: list[Pending]) -> list[list[Pending]]:
        self._forget(refused)
        left = await self._answer_executed(refused)
        if len(left) < len(refused):
            return [left]
        if len(left) == 1:
            self.give_up(left[0])
            return []
        return [left[: len(left) // 2], left[len(left) // 2 :]]
