"""Arrival of commands: each command key and each idempotency key is executed once at a time.

A command that is in flight already, or that was executed before, gets the reply of that execution. A late
reversal and the message that it reverses are executed one after the other.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from actors.cards.answers import KEY_REUSED, RecentAnswers, fingerprint_of, reply_again
from actors.shards.admission import Admission
from actors.shards.committing import Confirmation
from actors.shards.in_flight import InFlight
from actors.shards.late_reversals import is_repeated_approval, late_reversal_target
from actors.shards.pending import Pending
from engine.commands import Reverse
from engine.replies import Done, NotExecuted, Reply


class Deduplication:
    """Admits the commands of one host, or lets them wait for another command's reply."""

    def __init__(
        self, in_flight: InFlight, answers: RecentAnswers, admission: Admission, confirmation: Confirmation
    ) -> None:
        self._in_flight = in_flight
        self._answers = answers
        self._confirmation = confirmation
        self._admit: Callable[[Pending], None] = admission.admit
        self._refuse_faulty = admission.refuse_faulty
        self._waiters: set[asyncio.Task[None]] = set()
        """Commands that wait for the reply of another one."""

    def enter(self, pending: Pending) -> None:
        """Admit a command unless its reply depends on another one. Never raises."""
        try:
            self._enter(pending)
        except Exception as fault:  # noqa: BLE001 - a fault of one command must not cost its batch
            self._refuse_faulty(pending, fault)

    async def wait(self) -> None:
        """Wait until no command waits for another one."""
        await asyncio.gather(*self._waiters)

    def _enter(self, pending: Pending) -> None:
        command = pending.command
        target = late_reversal_target(command) if isinstance(command, Reverse) else None
        predecessor = self._in_flight.predecessor(command, target)
        if predecessor is not None:
            self._spawn(self._enter_after(pending, predecessor.subscribe()))
            return
        stored = self._answers.repeat(command)
        if stored is not None and self._confirmation.answer_executed(pending, stored):
            return
        first = self._in_flight.same_key(command)
        if first is not None:
            first.join(pending.slot)
            self._spawn(self._follow(pending, first, first.subscribe()))
            return
        claim = pending.submission.claim
        if claim is not None:
            holder = self._in_flight.claim_holder(claim.key_digest, pending)
            if holder is not pending:
                self._spawn(self._follow_claim(pending, holder, holder.subscribe()))
                return
        self._in_flight.add(pending, target)
        self._admit(pending)

    async def _enter_after(self, pending: Pending, reply: asyncio.Future[Reply]) -> None:
        await asyncio.shield(reply)
        self.enter(pending)

    async def _follow(self, pending: Pending, first: Pending, first_reply: asyncio.Future[Reply]) -> None:
        """The same command is in flight: give both callers the same reply."""
        reply = await asyncio.shield(first_reply)
        if isinstance(reply, NotExecuted):
            pending.answer(reply)
        elif self._must_enter_again(pending, first, reply):
            self.enter(pending)
        else:
            pending.answer(reply_again(pending.command, fingerprint_of(first.command), reply))

    def _must_enter_again(self, pending: Pending, first: Pending, reply: Reply) -> bool:
        """Whether the reply to ``first`` does not answer ``pending``: a reversal of a standing approval says
        nothing about the reversal of another exchange; with other content, only the journal knows which
        content was executed; and a repeated approval must be recorded first."""
        if first.approval_stands or fingerprint_of(pending.command) != fingerprint_of(first.command):
            return True
        return is_repeated_approval(pending.command, reply)

    async def _follow_claim(
        self, pending: Pending, holder: Pending, holder_reply: asyncio.Future[Reply]
    ) -> None:
        """Another request with the same idempotency key is in flight: give both callers the same reply."""
        own, held = pending.submission.claim, holder.submission.claim
        if own is None or held is None or own.fingerprint != held.fingerprint:
            pending.answer(KEY_REUSED)
            return
        reply = await asyncio.shield(holder_reply)
        replayed = isinstance(reply, Done)
        pending.answer(msgspec.structs.replace(reply, replayed=True) if replayed else reply)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._waiters.add(task)
        task.add_done_callback(self._waiters.discard)
