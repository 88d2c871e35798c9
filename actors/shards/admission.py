"""Admission: decide a command now, let it wait for its state, or refuse it.

Nothing is awaited between reading state and deciding on it, except in ``prepare``, which recovery uses while
admission is paused.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import chain
from typing import Literal

import structlog

from actors.cards.activation import Activation
from actors.cards.answers import RecentAnswers
from actors.cards.reading import Need, Wanted
from actors.clock import Clock
from actors.journal.contract import Rows
from actors.journal.group_commit import GroupCommitter
from actors.shards.committing import Confirmation
from actors.shards.consultations import Consultations, ProgrammeCalls
from actors.shards.decider import Decider
from actors.shards.in_flight import InFlight
from actors.shards.late_reversals import late_reversal_target
from actors.shards.pending import Pending
from engine.authorization import executed
from engine.commands import READS, Advise, Authorize, Command, CreateCard, Present, ProgrammeChange, Reverse
from engine.decline import RESPONSE_CODES
from engine.execution import execute_programme
from engine.replies import NotExecuted, Problem, Reply, WireAnswer

Prepared = Literal["decided", "answered", "spoiled"]
"""``decided``: the reply waits for the commit. ``answered``: the reply needs no commit of this batch.
``spoiled``: our own code failed, and no row of the batch may be written."""

_log = structlog.get_logger(__name__)


class Admission:
    """Admits the commands of one host.

    ``epochs`` is the host's current map of owned shards; ``releasing`` are shards of it that take no new
    commands.
    """

    def __init__(
        self,
        activation: Activation,
        decider: Decider,
        committer: GroupCommitter[Pending],
        answers: RecentAnswers,
        confirmation: Confirmation,
        in_flight: InFlight,
        clock: Clock,
        programme_calls: ProgrammeCalls,
        epochs: dict[int, int],
    ) -> None:
        self._activation = activation
        self._decider = decider
        self._committer = committer
        self._answers = answers
        self._confirmation = confirmation
        self._in_flight = in_flight
        self._clock = clock
        self._epochs = epochs
        self.releasing: set[int] = set()
        self.consultations = Consultations(activation, programme_calls, clock, self.admit, in_flight.resolve)
        self._cold: dict[str, list[Pending]] = {}
        """Commands that wait for a read, by the id that they need."""
        self._held_back: list[Pending] | None = None
        """Commands that arrive while admission is paused."""

    def admit(self, pending: Pending) -> None:
        """Decide the command, or let it wait, or refuse it. Never raises."""
        try:
            self._admit(pending)
        except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost its batch
            self.refuse_faulty(pending, fault)

    def refuse_faulty(self, pending: Pending, fault: Exception) -> None:
        """Our own code failed before the command was decided: it has had no effect."""
        self._log_fault(pending, fault)
        self._in_flight.resolve(pending, NotExecuted("faulty"))

    def on_loaded(self, wanted: Wanted, unreadable: Collection[str]) -> None:
        """Admit the commands that waited for ``wanted``; refuse those whose rows cannot be decoded."""
        for id_ in wanted.ids():
            for pending in self._cold.pop(id_, ()):
                if id_ in unreadable:
                    self._in_flight.resolve(pending, NotExecuted("faulty"))
                    continue
                try:
                    self._admit_loaded(pending, id_)
                except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost the others
                    self.refuse_faulty(pending, fault)

    def refuse_cold(self) -> None:
        """Refuse the commands that wait for a read. For the end of the host, when nothing is read any
        more."""
        for pending in list(chain.from_iterable(self._cold.values())):
            self._in_flight.resolve(pending, NotExecuted("not_owner"))

    # --- recovery -----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Hold back all commands until ``resume``; reads in flight are thrown away."""
        self._held_back = []
        self._activation.pause()

    def resume(self, unexecuted: list[Pending]) -> None:
        """Admit ``unexecuted``, then the commands that were held back."""
        self._activation.resume()
        held_back, self._held_back = self._held_back or [], None
        for pending in (*unexecuted, *held_back):
            self.admit(pending)

    async def prepare(self, pending: Pending, rows: Rows) -> Prepared:
        """Read the state that the command needs, and decide it into ``rows``."""
        if (refusal := self._refusal(pending)) is not None:
            self._in_flight.resolve(pending, refusal)
            return "answered"
        while (need := self._activation.need(pending.command)) is not None:
            if not await self._activation.fetch(need):
                self._in_flight.resolve(pending, NotExecuted("faulty"))
                return "answered"
            if need.kind != "past" and self._activation.need(pending.command) == need:
                self._in_flight.resolve(pending, absent_reply(pending.command))
                return "answered"
        try:
            if self.consultations.start_if_needed(pending):
                return "answered"
            self._decider.decide(pending, rows, self._clock.now_ms())
        except MemoryError:
            # Not a fault of the command. It ends the committer and the process; other processes have memory.
            raise
        except Exception as fault:  # noqa: BLE001 - this command is at fault
            self._log_fault(pending, fault)
            return "spoiled"
        return "decided"

    # --- steps --------------------------------------------------------------------------------------------

    def _admit(self, pending: Pending) -> None:
        if self._held_back is not None:
            self._held_back.append(pending)
        elif (refusal := self._refusal(pending)) is not None:
            self._in_flight.resolve(pending, refusal)
        elif self._prefetched(pending) and not self.consultations.start_if_needed(pending):
            self._decide(pending)

    def _refusal(self, pending: Pending) -> NotExecuted | None:
        """Why this host may not decide the command now, if so."""
        if pending.shard not in self._epochs or pending.shard in self.releasing:
            return NotExecuted("not_owner")
        return NotExecuted("deadline") if self._clock.monotonic() > pending.deadline else None

    def _prefetched(self, pending: Pending) -> bool:
        """Whether all state that the command needs is in memory. If not, it is read, and the command is
        admitted again."""
        stored = self._stored_reply(pending) or self._stored_response(pending)
        need = stored or self._activation.need(pending.command)
        if need is None:
            return True
        self._cold.setdefault(need.id, []).append(pending)
        self._activation.want(need)
        return False

    def _stored_reply(self, pending: Pending) -> Need | None:
        """The stored reply that must be looked for before the decision: that of a repeat, or that of the
        message that a late reversal reverses."""
        command = pending.command
        if pending.looked_up or not (pending.submission.repeat or isinstance(command, Reverse)):
            return None
        if isinstance(command, READS):
            return None
        pending.looked_up = True
        target = late_reversal_target(command)
        key = command.command_key if target is None else target
        if key in self._answers or (target is None and not pending.submission.repeat):
            return None
        return Need("command", key.hex())

    def _stored_response(self, pending: Pending) -> Need | None:
        """The stored response that must be looked for before the decision: that of the idempotency key of a
        command that may have been executed before."""
        claim = pending.submission.claim
        if claim is None or pending.claim_looked_up or not pending.submission.repeat:
            return None
        pending.claim_looked_up = True
        return Need("response", claim.key_digest.hex())

    def _admit_loaded(self, pending: Pending, id_: str) -> None:
        """A card or programme that has been read and is still not in memory does not exist."""
        claim = pending.submission.claim
        response = None if claim is None else self._activation.responses.pop(claim.key_digest, None)
        need = self._activation.need(pending.command)
        if need is not None and need.id == id_ and need.kind != "past":
            self._in_flight.resolve(pending, absent_reply(pending.command))
            return
        stored = self._answers.repeat(pending.command)
        if stored is not None and self._confirmation.answer_executed(pending, stored):
            return
        if stored is None and response is not None:
            self._confirmation.answer_claimed(pending, response)
        else:
            self.admit(pending)

    def _decide(self, pending: Pending) -> None:
        rows = self._committer.add(pending)
        try:
            self._decider.decide(pending, rows, self._clock.now_ms())
        except Exception as fault:  # noqa: BLE001 - our fault with one command must not affect the others
            # First: a partial set of rows must never be written, even if logging fails.
            self._committer.spoil()
            self._log_fault(pending, fault)

    def _log_fault(self, pending: Pending, fault: Exception) -> None:
        command, trace = pending.command, pending.submission.trace
        _log.error(
            "decision_fault", command=type(command).__name__, id=command.id, trace=trace, exc_info=fault
        )


def absent_reply(command: Command) -> Reply:
    """The reply when the card or programme does not exist."""
    if isinstance(command, Authorize | Reverse | Present | Advise):
        return WireAnswer(RESPONSE_CODES["card_not_found"], command.id)
    if isinstance(command, CreateCard):
        return Problem(404, "not-found", "There is no such programme or funding account.")
    return execute_programme.NOT_FOUND if isinstance(command, ProgrammeChange) else executed.NOT_FOUND
