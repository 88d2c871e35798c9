"""A shard host: many shards, one event loop, one group committer.

A command passes through four steps. *Admit*: is it mine, was it executed before, is there time left?
*Prefetch*: wait until its card or programme is in memory, and until a delegated programme has been asked
(``consulting``). *Decide*: one synchronous stretch that moves
tentative state on and adds rows to the open batch. *Commit*: the reply leaves when its batch is durable.
Nothing is awaited between reading state and deciding on it.

The host is a plain object: ``actors.cluster`` puts it into a Ray actor, tests and simulations run it in a
loop of their own.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import msgspec
import structlog

from actors.cards.activation import Activation
from actors.cards.answers import KEY_REUSED, RecentAnswers, fingerprint_of, reply_again
from actors.cards.reading import Need, Wanted
from actors.clock import Clock
from actors.journal.contract import (
    Journal,
    JournalError,
    Rows,
    StoredResponse,
    UnknownOutcomeError,
    Unreadable,
)
from actors.journal.group_commit import Batch, GroupCommitter
from actors.shards.consulting import Consulting, Delegates
from actors.shards.counts import HostCounts
from actors.shards.decider import Decider
from actors.shards.late import is_repeated_approval, undone_by
from actors.shards.pending import Pending, present
from actors.shards.recovery import Prepared, Recovery
from actors.shards.turn import Mailboxes, Seat, Turn
from actors.submission import Submission
from actors.vault import Vault
from engine.authorization import executed
from engine.commands import (
    Advise,
    Authorize,
    ChangeProgramme,
    Command,
    CreateCard,
    CreateProgramme,
    Present,
    ProgrammeChange,
    ReadBalance,
    Reverse,
    SetStandInPolicy,
    target_of,
)
from engine.decline import RESPONSE_CODES
from engine.execution import execute_programme
from engine.ids import shard_of
from engine.limits import (
    ACTIVE_CARDS_MAX,
    BACKLOG_REFUSE,
    COLLECT_SECONDS,
    HOST_STOP_SECONDS,
    RELEASE_SECONDS,
)
from engine.programmes.programme import Programme
from engine.replies import Done, Granted, NotExecuted, Problem, Reply, WireAnswer

_log = structlog.get_logger(__name__)

# Made once: an expression of types builds an object each time it is met.
_REMEMBERED = (WireAnswer, Done, Granted)
_CONFIGURING = (CreateProgramme, ChangeProgramme, SetStandInPolicy)

Publish = Callable[[Programme], Awaitable[None]]


class ShardHost:
    """See the module.

    ``publish`` tells every host about a programme's new version and returns when all have it; ``fenced`` is
    called when another host owns a shard of this one: the process must end at once; ``delegates`` asks
    programmes that decide themselves.
    """

    def __init__(
        self,
        journal: Journal,
        vault: Vault,
        clock: Clock,
        publish: Publish,
        fenced: Callable[[], None],
        delegates: Delegates,
        active_cards_max: int = ACTIVE_CARDS_MAX,
    ) -> None:
        self._journal = journal
        self._vault = vault
        self._clock = clock
        self._publish = publish
        self.counts = HostCounts()
        self.answers = RecentAnswers()
        self.epochs: dict[int, int] = {}
        self.activation = Activation(journal, self._on_loaded, self.answers.remember_stored, active_cards_max)
        self.decider = Decider(self.activation, self.epochs, vault, self.answers)
        self.committer: GroupCommitter[Pending] = GroupCommitter(journal, self._on_commit, self._on_failure)
        self._recovery = Recovery(self, journal, fenced)
        self.consulting = Consulting(self.activation, delegates, clock, self._admit, self.resolve)
        self._mailboxes = Mailboxes()
        self._in_flight: dict[bytes, Pending] = {}
        self._reversing: dict[bytes, Pending] = {}
        """Late reversals under way, by the command key of what they undo."""
        self._claims: dict[bytes, Pending] = {}
        self._cold: dict[str, list[Pending]] = {}
        self._held_back: list[Pending] | None = None
        self._leaving: set[int] = set()
        self._at_door = 0
        self._announcements: set[asyncio.Task[None]] = set()
        self._followers: set[asyncio.Task[None]] = set()

    # --- ownership ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin committing; the host owns nothing yet."""
        self.committer.start()

    async def stop(self) -> None:
        """Finish what is under way and stop; callers of anything later hear that it was not executed."""
        self._leaving.update(self.epochs)
        await self.consulting.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(HOST_STOP_SECONDS):
                await self.committer.drained()
        await self.committer.stop()
        await self.activation.stop()
        for pending in list(chain.from_iterable(self._cold.values())):
            self.resolve(pending, NotExecuted("not_owner"))
        await asyncio.gather(*self._announcements)
        for pending in list(self._in_flight.values()):
            # The journal is away: whether these happened is for the next owner to find out.
            self.resolve(pending, NotExecuted("unavailable"))
        await asyncio.gather(*self._followers)
        await self._journal.close()

    async def take(self, shards: Collection[int], known: Mapping[int, int] | None = None) -> None:
        """Own ``shards`` from now on. Their state is read only after their new epochs are durable. ``known``
        as for ``Journal.take``."""
        epochs = await self._journal.take(shards, known)
        self.activation.drop_shards(epochs)
        self.epochs.update(epochs)

    async def release(self, shards: Collection[int]) -> None:
        """Give ``shards`` up: refuse new commands, finish the old ones, then let go. Raises TimeoutError when
        they cannot be finished in time; the host then keeps the shards and serves them.

        The epochs are kept to the end: if a commit fails meanwhile, recovery has to renew them.
        """
        self._leaving.update(shards)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                await self.committer.drained()
        except BaseException:
            self._leaving.difference_update(shards)
            raise
        known = {shard: epoch for shard in shards if (epoch := self.epochs.pop(shard, None)) is not None}
        self._leaving.difference_update(shards)
        self.activation.drop_shards(shards)
        with suppress(UnknownOutcomeError):
            # Only a courtesy: the next owner ends our epoch in any case.
            await self._journal.release(tuple(known), known)

    def programme_changed(self, programme: Programme) -> None:
        """A programme has a new version; decisions from now on see it."""
        self.activation.learn(programme)

    # --- the way in ---------------------------------------------------------------------------------------

    async def execute(self, submissions: list[Submission], caller: str | None = None) -> list[Reply]:
        """Execute a batch; each reply is durable or says that nothing happened. Replies stand in the order
        of ``submissions``. What has to wait for the outside world is ``Deferred`` for a ``caller`` that
        collects."""
        if self._waiting + self._at_door + len(submissions) > BACKLOG_REFUSE:
            self.counts.refused("overloaded", len(submissions))
            return [NotExecuted("overloaded")] * len(submissions)
        if not submissions:
            return []
        now = self._clock.monotonic()
        self._at_door += len(submissions)
        try:
            await self.committer.room()
        finally:
            self._at_door -= len(submissions)
        turn = Turn(len(submissions), None if caller is None else self._mailboxes.of(caller))
        seats = [self._seat(each, turn, now) for each in submissions]
        await turn.over()
        return [seat.outcome() for seat in seats]

    async def execute_decodable(
        self, submissions: list[Submission | None], caller: str | None = None
    ) -> list[Reply]:
        """``execute`` for a parcel; in place of a submission that could not be decoded stands ``None``: its
        reply is ``faulty`` and the others are executed."""
        decodable = [each for each in submissions if each is not None]
        replies = await self.execute(decodable, caller)
        undecodable = len(submissions) - len(decodable)
        if not undecodable:
            return replies
        _log.error("commands_undecodable", commands=undecodable)
        self.counts.refused("faulty", undecodable)
        answered = iter(replies)
        return [NotExecuted("faulty") if each is None else next(answered) for each in submissions]

    async def collect(self, caller: str) -> list[tuple[int, Reply]]:
        """Deferred replies of ``caller`` by ticket, as soon as there are any."""
        return await self._mailboxes.of(caller).collect(COLLECT_SECONDS)

    @property
    def _waiting(self) -> int:
        """Commands here that wait for this host, not for the outside world."""
        return len(self._in_flight) - self.consulting.open

    def _seat(self, submission: Submission, turn: Turn, now: float) -> Seat:
        seat = Seat(turn, submission.ticket)
        command, deadline = submission.command, now + submission.remaining_ms / 1000
        self._enter(Pending(submission, command, shard_of(target_of(command)), deadline, seat, now))
        return seat

    def _enter(self, pending: Pending) -> None:
        """Take one command in, unless it is here already."""
        try:
            self._take_in(pending)
        except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost its batch
            self._refuse_faulty(pending, fault)

    def _take_in(self, pending: Pending) -> None:
        command = pending.command
        undone = undone_by(command) if isinstance(command, Reverse) else None
        before = self._before(command, undone)
        if before is not None:
            _spawn(self._enter_after(pending, before.overheard()), self._followers)
            return
        repeated = self.answers.repeat(command)
        if repeated is not None and self.answer_executed(pending, repeated):
            return
        first = self._in_flight.get(command.command_key)
        if first is not None:
            first.join(pending.seat)
            _spawn(self._follow(pending, first, first.overheard()), self._followers)
            return
        claim = pending.submission.claim
        if claim is not None:
            holder = self._claims.setdefault(claim.key_digest, pending)
            if holder is not pending:
                _spawn(self._follow_claim(pending, holder, holder.overheard()), self._followers)
                return
        self._in_flight[command.command_key] = pending
        if undone is not None:
            self._reversing[undone] = pending
        self._admit(pending)

    def _before(self, command: Command, undone: bytes | None) -> Pending | None:
        """The command that has to have its reply first. A late reversal and the messages that it undoes are
        executed one after the other: only then it is known which exchanges got the approval."""
        if undone is not None:
            return self._in_flight.get(undone)
        return self._reversing.get(command.command_key) if self._reversing else None

    async def _enter_after(self, pending: Pending, overheard: asyncio.Future[Reply]) -> None:
        await asyncio.shield(overheard)
        self._enter(pending)

    async def _follow(self, pending: Pending, first: Pending, overheard: asyncio.Future[Reply]) -> None:
        """The same command is being executed: both callers get the one answer (wire case 3)."""
        reply = await asyncio.shield(overheard)
        if isinstance(reply, NotExecuted):
            pending.answer(reply)
        elif self._has_to_enter_again(pending, first, reply):
            self._enter(pending)
        else:
            pending.answer(reply_again(pending.command, fingerprint_of(first.command), reply))

    def _has_to_enter_again(self, pending: Pending, first: Pending, reply: Reply) -> bool:
        """One key, two contents: the first's own answer does not tell whose of them was executed. A reversal
        that changed nothing says nothing about that of another exchange. And an approval that a repeat gets
        has to be noted first."""
        if first.stands or fingerprint_of(pending.command) != fingerprint_of(first.command):
            return True
        return is_repeated_approval(pending.command, reply)

    async def _follow_claim(
        self, pending: Pending, holder: Pending, overheard: asyncio.Future[Reply]
    ) -> None:
        """Another request with the same idempotency key is being executed."""
        mine, theirs = pending.submission.claim, holder.submission.claim
        if mine is None or theirs is None or mine.fingerprint != theirs.fingerprint:
            pending.answer(KEY_REUSED)
            return
        reply = await asyncio.shield(overheard)
        replayed = isinstance(reply, Done)
        pending.answer(msgspec.structs.replace(reply, replayed=True) if replayed else reply)

    def _admit(self, pending: Pending) -> None:
        """Decide the command now, or have it wait for its card, or refuse it."""
        try:
            self._proceed(pending)
        except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost its batch
            self._refuse_faulty(pending, fault)

    def _proceed(self, pending: Pending) -> None:
        if self._held_back is not None:
            self._held_back.append(pending)
        elif (refusal := self._refusal(pending)) is not None:
            self.resolve(pending, refusal)
        elif self._prefetched(pending) and not self.consulting.begins(pending):
            self._decide(pending)

    def _refusal(self, pending: Pending) -> NotExecuted | None:
        """Why the command may not be decided here and now, if so."""
        if pending.shard not in self.epochs or pending.shard in self._leaving:
            return NotExecuted("not_owner")
        return NotExecuted("deadline") if self._clock.monotonic() > pending.deadline else None

    def _decide(self, pending: Pending) -> None:
        rows = self.committer.add(pending)
        try:
            self.decider.decide(pending, rows, self._clock.now_ms())
        except Exception as fault:  # noqa: BLE001 - a fault of ours with one command must not cost the others theirs
            # First of all: whatever fails from here on, half of its rows must never be written.
            self.committer.spoil()
            self._log_fault(pending, fault)

    def _refuse_faulty(self, pending: Pending, fault: Exception) -> None:
        """Before the command was decided, our own code failed with it: it has had no effect."""
        self._log_fault(pending, fault)
        self.resolve(pending, NotExecuted("faulty"))

    def _log_fault(self, pending: Pending, fault: Exception) -> None:
        command, trace = pending.command, pending.submission.trace
        _log.error(
            "decision_fault", command=type(command).__name__, id=command.id, trace=trace, exc_info=fault
        )

    def _prefetched(self, pending: Pending) -> bool:
        """Whether all that the command needs is in memory; if not, it is fetched and the command admitted
        again."""
        need = self._stored_reply(pending) or self.activation.need(pending.command)
        if need is None:
            return True
        self._cold.setdefault(need.id, []).append(pending)
        self.activation.want(need)
        return False

    def _stored_reply(self, pending: Pending) -> Need | None:
        """The stored reply that has to be looked for before the command is decided: that of a repeat, and of
        what a late reversal undoes."""
        command = pending.command
        if pending.looked_up or not (pending.submission.repeat or isinstance(command, Reverse)):
            return None
        pending.looked_up = True
        undone = undone_by(command)
        key = command.command_key if undone is None else undone
        if key in self.answers or (undone is None and not pending.submission.repeat):
            return None
        return Need("command", key.hex())

    def _on_loaded(self, wanted: Wanted, unreadable: Collection[str]) -> None:
        """Admit the commands that waited for ``wanted``; refuse those whose rows cannot be decoded."""
        for id_ in wanted.ids():
            for pending in self._cold.pop(id_, ()):
                if id_ in unreadable:
                    self.resolve(pending, NotExecuted("faulty"))
                    continue
                try:
                    self._admit_loaded(pending, id_)
                except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost the others
                    self._refuse_faulty(pending, fault)

    def _admit_loaded(self, pending: Pending, id_: str) -> None:
        """What has been read and is still not in memory does not exist."""
        need = self.activation.need(pending.command)
        if need is not None and need.id == id_:
            self.resolve(pending, absent_reply(pending.command))
        else:
            repeated = self.answers.repeat(pending.command)
            if repeated is None or not self.answer_executed(pending, repeated):
                self._admit(pending)

    # --- commit -------------------------------------------------------------------------------------------

    def _on_commit(self, batch: Batch[Pending]) -> None:
        self.confirm(batch.pending)
        self.activation.passivate_some()

    async def _on_failure(self, failed: list[Batch[Pending]], failure: JournalError) -> None:
        await self._recovery.recover([pending for batch in failed for pending in batch.pending], failure)

    def confirm(self, pendings: Iterable[Pending]) -> None:
        """The commands' commit has happened: their replies may leave."""
        now = self._clock.monotonic()
        for pending in pendings:
            self._confirm(pending, now)

    def _confirm(self, pending: Pending, now: float) -> None:
        reply = pending.reply
        assert reply is not None, "decided commands have replies"
        self.counts.confirmed(pending, now)
        if pending.actor is not None:
            pending.actor.undurable -= 1
            if not pending.actor.undurable:
                self.activation.forget_old(pending.actor)
        if pending.repeated is not None or pending.stands:
            self.resolve(pending, reply)
            return
        if isinstance(reply, _REMEMBERED) and not isinstance(pending.command, ReadBalance):
            # What has been read can be read again; remembered, it would take more memory than its card.
            self.answers.remember(pending.command.command_key, fingerprint_of(pending.command), reply)
            reply = self._told(pending, reply)
        if pending.programme is not None:
            self.activation.learn(pending.programme)
        self._resolve_told(pending, present(reply, pending.submission))

    def _told(self, pending: Pending, reply: Reply) -> Reply:
        """An approval whose edge has undone it before it came is none: nothing is held for it."""
        if pending.actor is None or not pending.actor.card.tombstones:
            return reply
        return self.answers.still_true(pending.command, reply)

    def answer_executed(self, pending: Pending, reply: Reply) -> bool:
        """The command was executed before: the same answer again, under the same conditions. False: it is the
        approval of another exchange, and ``pending`` has to be admitted, so that this is noted first."""
        if is_repeated_approval(pending.command, reply):
            pending.repeated = reply
            return False
        self._resolve_told(pending, present(reply, pending.submission))
        return True

    def answer_claimed(self, pending: Pending, response: StoredResponse) -> None:
        """Another request has executed the idempotency key: its stored response, or a conflict."""
        claim = pending.submission.claim
        assert claim is not None, "only claims are found"
        if response.fingerprint != claim.fingerprint:
            self.resolve(pending, KEY_REUSED)
            return
        body = self._vault.open("idempotency", response.sealed, claim.key_digest)
        self.resolve(pending, Done(response.status, msgspec.json.decode(body), replayed=True))

    def _resolve_told(self, pending: Pending, reply: Reply) -> None:
        """A programme's change is acknowledged only after every host has it; all else at once. That an outage
        began or ended is told beside the reply: nobody's decision depends on it."""
        command = pending.command
        if isinstance(command, _CONFIGURING) and isinstance(reply, Done):
            _spawn(self._announce(pending, reply), self._announcements)
            return
        if pending.told and pending.programme is not None:
            _spawn(self._mention(pending.programme), self._announcements)
        self.resolve(pending, reply)

    async def _announce(self, pending: Pending, reply: Done) -> None:
        """Tell every host, then the caller. What was executed before may be the change of a host that died
        before it told anybody, so the version is the journal's, not the one in memory here."""
        outcome: Reply = reply
        try:
            await self._publish(pending.programme or await self._newest(target_of(pending.command)))
        except Exception as fault:  # noqa: BLE001 - however it failed, the caller must hear to ask again
            _log.warning("announcement_failed", error=type(fault).__name__)
            outcome = NotExecuted("unavailable")
        self.resolve(pending, outcome)

    async def _mention(self, programme: Programme) -> None:
        try:
            await self._publish(programme)
        except Exception as fault:  # noqa: BLE001 - hosts read their snapshots again by themselves
            _log.warning("announcement_failed", error=type(fault).__name__)

    async def _newest(self, programme_id: str) -> Programme:
        newest = (await self._journal.load_programmes([programme_id]))[programme_id]
        if isinstance(newest, Unreadable):
            raise ValueError(newest.error)
        return newest

    def resolve(self, pending: Pending, reply: Reply) -> None:
        """Give the caller its reply and forget the command."""
        if isinstance(reply, NotExecuted):
            self.counts.refused(reply.reason)
        if self._in_flight.get(pending.command.command_key) is pending:
            del self._in_flight[pending.command.command_key]
            self._forget_reversal(pending)
        claim = pending.submission.claim
        if claim is not None and self._claims.get(claim.key_digest) is pending:
            del self._claims[claim.key_digest]
        pending.answer(reply)

    def _forget_reversal(self, pending: Pending) -> None:
        undone = undone_by(pending.command) if self._reversing else None
        if undone is not None and self._reversing.get(undone) is pending:
            del self._reversing[undone]

    # --- recovery -----------------------------------------------------------------------------------------

    def hold_back(self) -> None:
        """Admit nothing until ``carry_on``; reads under way are thrown away."""
        self._held_back = []
        self.activation.pause()

    def carry_on(self, left: list[Pending]) -> None:
        """Admit ``left``, then whatever has been held back."""
        self.activation.resume()
        held_back, self._held_back = self._held_back or [], None
        for pending in (*left, *held_back):
            self._admit(pending)

    async def prepare(self, pending: Pending, rows: Rows) -> Prepared:
        """Bring in what the command needs and decide it into ``rows``."""
        if (refusal := self._refusal(pending)) is not None:
            self.resolve(pending, refusal)
            return "answered"
        while (need := self.activation.need(pending.command)) is not None:
            if not await self.activation.fetch(need):
                self.resolve(pending, NotExecuted("faulty"))
                return "answered"
            if self.activation.need(pending.command) == need:
                self.resolve(pending, absent_reply(pending.command))
                return "answered"
        try:
            if self.consulting.begins(pending):
                return "answered"
            self.decider.decide(pending, rows, self._clock.now_ms())
        except MemoryError:
            # Not the command's fault. It ends the committer, and with that the process: others have memory.
            raise
        except Exception as fault:  # noqa: BLE001 - this is the poisonous one
            self._log_fault(pending, fault)
            return "spoiled"
        return "decided"


def _spawn(work: Coroutine[Any, Any, None], among: set[asyncio.Task[None]]) -> None:
    """Begin ``work``; until it is done it is kept ``among`` its kind."""
    task = asyncio.get_running_loop().create_task(work)
    among.add(task)
    task.add_done_callback(among.discard)


def absent_reply(command: Command) -> Reply:
    """The reply when the card or programme does not exist."""
    if isinstance(command, Authorize | Reverse | Present | Advise):
        return WireAnswer(RESPONSE_CODES["card_not_found"], command.id)
    if isinstance(command, CreateCard):
        return Problem(404, "not-found", "There is no such programme or funding account.")
    return execute_programme.NOT_FOUND if isinstance(command, ProgrammeChange) else executed.NOT_FOUND
