"""Recovery after a commit that was refused, or whose outcome is unknown.

Tentative state is never repaired: the host drops all state that the undurable commands touched. If the
outcome is unknown, the host renews its epochs first, so that a commit that is still in flight fails. Then it
reads from the journal which of the commands were executed, and gives them their stored replies. The other
commands were not executed. After an unknown commit they are admitted again while they have time left. After a
refused commit they are committed again as one batch, and in halves where that is refused too, so that
repeated or faulty commands do not affect the others.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from itertools import chain, repeat
from typing import TypeVar

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
    UnknownOutcomeError,
)
from actors.shards.admission import Admission
from actors.shards.committing import Confirmation
from actors.shards.in_flight import InFlight
from actors.shards.pending import Pending
from engine.commands import target_of
from engine.iso8583.identity import late_reversal_key
from engine.limits import COMMIT_BATCH_MAX
from engine.replies import NotExecuted

T = TypeVar("T")

_log = structlog.get_logger(__name__)

PAUSE_SECONDS = (0.01, 0.05, 0.1, 0.2, 0.5)
"""Back-off between attempts to reach the journal; the last pause repeats."""


class Recovery:
    """Runs inside the committer's task, which commits no other batch meanwhile. ``epochs`` is the host's
    current map of shard to epoch; ``fenced`` is called when another host owns one of its shards."""

    def __init__(
        self,
        journal: Journal,
        activation: Activation,
        answers: RecentAnswers,
        admission: Admission,
        confirmation: Confirmation,
        in_flight: InFlight,
        epochs: dict[int, int],
        fenced: Callable[[], None],
    ) -> None:
        self._journal = journal
        self._activation = activation
        self._answers = answers
        self._admission = admission
        self._confirmation = confirmation
        self._in_flight = in_flight
        self._epochs = epochs
        self._fenced = fenced

    async def recover(self, pendings: list[Pending], failure: JournalError) -> None:
        """Answer the executed commands among ``pendings``, and execute the others again. Raises
        StaleEpochError, after calling ``fenced``, when another host owns a shard."""
        self._admission.pause()
        self._drop(pendings)
        try:
            unexecuted = await self._reconcile(pendings, failure)
        except StaleEpochError:
            self._fenced()
            raise
        self._admission.resume(unexecuted)

    async def _reconcile(self, pendings: list[Pending], failure: JournalError) -> list[Pending]:
        """Answer the commands that can be answered; returns those to be admitted again."""
        if isinstance(failure, StaleEpochError):
            raise failure
        if isinstance(failure, UnknownOutcomeError):
            await self._renew()
        unexecuted = await self._answer_executed(pendings)
        return await self._commit_again(unexecuted) if isinstance(failure, RejectedError) else unexecuted

    def _drop(self, pendings: list[Pending]) -> None:
        """Drop the state that the commands touched, and their decisions."""
        self._activation.drop_cards({target_of(pending.command) for pending in pendings})
        for pending in pendings:
            if pending.programme is not None:
                self._activation.programmes.pop(pending.programme.config.id, None)
            pending.discard_decision()

    def _refuse_faulty(self, pending: Pending) -> None:
        """The command cannot be executed: drop its state and refuse it."""
        self._drop([pending])
        self._in_flight.resolve(pending, NotExecuted("faulty"))

    async def _renew(self) -> None:
        """Terminate the connections and take new epochs; retries while the journal is unavailable."""
        await self._journal.reset()
        epochs = self._epochs
        epochs |= await self._retry(lambda: self._journal.renew(tuple(epochs), epochs))

    async def _retry(self, attempt: Callable[[], Awaitable[T]]) -> T:
        pauses: Iterator[float] = chain(PAUSE_SECONDS, repeat(PAUSE_SECONDS[-1]))
        while True:
            try:
                return await attempt()
            except UnknownOutcomeError:
                await asyncio.sleep(next(pauses))

    async def _answer_executed(self, pendings: list[Pending]) -> list[Pending]:
        """Give executed commands their stored replies; returns the other commands, in their order."""
        keys = [pending.command.command_key for pending in pendings]
        digests = [claim.key_digest for pending in pendings if (claim := pending.submission.claim)]
        # The journal returns the newest first, and a late reversal is newer than the message it reverses.
        wanted = [late_reversal_key(key) for key in keys] + keys
        found = await self._retry(lambda: self._journal.find(wanted))
        stored = {key: found[key] for key in wanted if key in found}
        # An old message that was repeated once can be repeated again, and each repeat would cost a refused
        # commit.
        self._answers.remember_stored(stored)
        responses = await self._retry(lambda: self._journal.find_responses(digests)) if digests else {}
        unexecuted = []
        for pending in pendings:
            executed = stored.get(pending.command.command_key)
            claim = pending.submission.claim
            response = responses.get(claim.key_digest) if claim else None
            if executed is not None:
                if not self._answer_stored(pending, executed):
                    unexecuted.append(pending)
            elif response is not None:
                self._confirmation.answer_claimed(pending, response)
            else:
                unexecuted.append(pending)
        return unexecuted

    def _answer_stored(self, pending: Pending, executed: StoredReply) -> bool:
        """Give the stored reply; returns false if the command must be admitted first."""
        try:
            reply = reply_from_journal(pending.command, executed)
        except (msgspec.MsgspecError, ValueError) as fault:
            _log.error("reply_unreadable", id=pending.command.id, error=type(fault).__name__)
            self._in_flight.resolve(pending, NotExecuted("faulty"))
            return True
        current = self._answers.unless_reversed(pending.command, reply)
        return self._confirmation.answer_executed(pending, current)

    async def _commit_again(self, pendings: list[Pending]) -> list[Pending]:
        """Commit the commands in as few transactions as the journal accepts. Returns the commands that remain
        unexecuted if the journal becomes unavailable meanwhile."""
        groups = deque(
            pendings[start : start + COMMIT_BATCH_MAX] for start in range(0, len(pendings), COMMIT_BATCH_MAX)
        )
        while groups:
            group = groups.popleft()
            try:
                groups.extendleft(reversed(await self._commit_group(group)))
            except UnknownOutcomeError:
                remaining = [*group, *chain.from_iterable(groups)]
                self._drop(remaining)
                await self._renew()
                return await self._answer_executed(remaining)
        return []

    async def _commit_group(self, group: list[Pending]) -> list[list[Pending]]:
        """Commit a group in one transaction; returns the groups to be tried next. If the commit is refused,
        executed commands get their replies, or the group is split in halves. One faulty command costs a
        few transactions, and every other command is executed. Commands that are answered are removed from
        ``group``."""
        rows = Rows()
        for pending in tuple(group):
            prepared = await self._admission.prepare(pending, rows)
            if prepared != "decided":
                group.remove(pending)
            if prepared == "spoiled":
                self._drop(group)
                self._refuse_faulty(pending)
                return [group]
        if not group:
            return []
        try:
            await self._journal.commit(rows)
        except RejectedError:
            return await self._split(group)
        self._confirmation.confirm(group)
        return []

    async def _split(self, refused: list[Pending]) -> list[list[Pending]]:
        self._drop(refused)
        unexecuted = await self._answer_executed(refused)
        if len(unexecuted) < len(refused):
            return [unexecuted]
        if len(unexecuted) == 1:
            self._refuse_faulty(unexecuted[0])
            return []
        half = len(unexecuted) // 2
        return [unexecuted[:half], unexecuted[half:]]
