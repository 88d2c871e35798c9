"""The commands of one router for one shard host: batches, calls in flight, and deferred replies.

While calls to a host are in flight the next batch collects, so batches grow with the load and no timer is
needed. A host can defer a reply; it is collected later and does not delay the other replies of its batch.

A host of an earlier release refuses a batch with a value that it does not know, before it executes any of its
commands. Then they are sent in their earlier form (``engine.commands.earlier``), and if that is refused too,
one by one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import msgspec

from actors.peers import PeerFailedError, PeerGoneError, Peers
from actors.submission import CommandBatch, Submission, decode_collected, decode_replies, encode_batch
from actors.tracing import Span
from engine.acts import Act
from engine.commands import Command, as_earlier
from engine.limits import (
    ROUTER_BATCH_MAX,
    ROUTER_BATCHES_IN_FLIGHT,
    ROUTER_SHARE_MIN,
    ROUTER_WAIT_SECONDS_MAX,
)
from engine.replies import Deferred, IdempotencyClaim, NotExecuted, Reply

RETRY_SECONDS: Final = 0.05
UNDECODABLE: Final = ("ValidationError", "DecodeError")
"""Errors of a host that cannot decode a batch. It has executed nothing of the batch."""


class PendingCommand(msgspec.Struct, eq=False):
    """A command without a reply. Instants are in the loop's time, in seconds."""

    command: Command
    claim: IdempotencyClaim | None
    presentation: dict[str, Any] | None
    entered: float
    deadline: float
    """No owner starts the command after it."""
    reply_deadline: float
    """The caller gets a reply by then."""
    reply: asyncio.Future[Reply]
    ticket: int
    trace: str | None = None
    sent: bool = False
    """The current owner may have executed the command."""
    doubtful: bool = False
    """An earlier owner, which is gone and gave no reply, may have executed the command."""
    repeat: bool = False
    alone: bool = False
    """The host could not decode the batch of this command; the next one has no other command."""
    act: Act | None = None
    span: Span | None = None
    """The router's span, if the router traces."""

    def submission(self, now: float, *, earlier: bool = False) -> Submission:
        """The form in which the command is sent; ``earlier``: to a host of an earlier release."""
        return Submission(
            as_earlier(self.command) if earlier else self.command,
            max(0, int((self.deadline - now) * 1000)),
            self.claim,
            self.presentation,
            self.ticket,
            self.trace,
            self.repeat or (self.doubtful and self.claim is not None),
            self.act,
            None if self.span is None else self.span.traceparent,
        )


class QueueOwner(Protocol):
    """The router, as its queues see it."""

    def finish(self, pending: PendingCommand, reply: Reply) -> None:
        """Give the caller its reply."""

    def reroute(self, pending: PendingCommand) -> None:
        """Send the command to another owner."""

    def host_gone(self, queue: HostQueue) -> None:
        """The host is dead: reroute the commands of ``queue``."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` in the background."""


class HostQueue:
    """The commands for one incarnation of a host. ``caller`` names the router at the host."""

    def __init__(self, incarnation: str, peers: Peers, owner: QueueOwner, caller: str) -> None:
        self.incarnation = incarnation
        self._peers = peers
        self._owner = owner
        self._caller = caller
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[PendingCommand] = deque()
        self._in_flight: set[PendingCommand] = set()
        self._senders = 0
        """Tasks that send batches, each with one call in flight at most."""
        self._idle_senders: list[asyncio.Future[None]] = []
        """Senders that wait for commands; the result wakes one of them."""
        self._call_seconds = 0.0
        """Duration of the last call."""
        self._deferred: dict[int, PendingCommand] = {}
        """Commands with a deferred reply, by ticket."""
        self._early_replies: dict[int, Reply] = {}
        """Deferred replies that were collected before the call that defers them returned, by ticket."""
        self._collecting = False
        self._closed = False
        self._earlier = False
        """Whether the host cannot decode values of this release."""

    def add(self, pending: PendingCommand) -> None:
        """Queue a command, and start a call if another one may be in flight."""
        self._waiting.append(pending)
        if len(self._waiting) == 1:
            # The sender takes all commands of this turn of the loop.
            self._wake_sender()

    def unanswered(self) -> list[PendingCommand]:
        """Every command that has no reply yet."""
        return [*self._in_flight, *self._deferred.values(), *self._waiting]

    @property
    def deferred(self) -> int:
        """The number of commands with a deferred reply."""
        return len(self._deferred)

    def is_too_long(self) -> bool:
        """Whether a new command would wait longer than ``ROUTER_WAIT_SECONDS_MAX``. The queue is first in,
        first out: a new command waits about as long as the oldest one has, plus the duration of a call."""
        if not self._waiting:
            return False
        waited = self._loop.time() - self._waiting[0].entered
        return waited + self._call_seconds > ROUTER_WAIT_SECONDS_MAX

    def close(self) -> list[PendingCommand]:
        """Stop using the host; returns the commands to be rerouted. Those that were sent become doubtful.
        Replies that arrive later are ignored, because the next owner's reply is the valid one."""
        self._closed = True
        for pending in (*self._in_flight, *self._deferred.values()):
            pending.doubtful = True
        unanswered = [pending for pending in self.unanswered() if not pending.reply.done()]
        while self._idle_senders:
            self._wake_sender()
        self._in_flight.clear()
        self._deferred.clear()
        self._waiting.clear()
        return unanswered

    # --- calls --------------------------------------------------------------------------------------------

    def _wake_sender(self) -> None:
        """Wake an idle sender, or start one. Senders live as long as the queue: a task for each call costs
        more than waiting."""
        if self._idle_senders:
            self._idle_senders.pop().set_result(None)
        elif self._senders < ROUTER_BATCHES_IN_FLIGHT:
            self._senders += 1
            self._owner.spawn(self._send_batches())

    async def _send_batches(self) -> None:
        """Send batches until the queue is closed. Each contains all commands of its turn of the loop."""
        await asyncio.sleep(0)
        try:
            while not self._closed:
                batch = self._next_batch()
                if self._waiting:
                    self._wake_sender()
                if batch:
                    await self._send(batch)
                elif not self._waiting:
                    await self._woken()
        finally:
            self._senders -= 1

    async def _woken(self) -> None:
        """Wait until there are commands, or the queue is closed."""
        woken: asyncio.Future[None] = self._loop.create_future()
        self._idle_senders.append(woken)
        try:
            await woken
        finally:
            if woken.cancelled():
                self._idle_senders.remove(woken)
        if len(self._waiting) > 1:
            # The edge reads a burst in several turns of the loop.
            await asyncio.sleep(0)

    def _next_batch(self) -> list[PendingCommand]:
        batch: list[PendingCommand] = []
        size_max = self._batch_size_max()
        while self._waiting and len(batch) < size_max:
            if batch and (batch[0].alone or self._waiting[0].alone):
                break
            pending = self._waiting.popleft()
            if not pending.reply.done():
                batch.append(pending)
        return batch

    def _batch_size_max(self) -> int:
        """A long queue is divided among the calls that may be opened now. In one batch, all its callers would
        get their replies together and come back together: the host would be idle while it commits."""
        if len(self._waiting) < 2 * ROUTER_SHARE_MIN:
            return ROUTER_BATCH_MAX
        others = self._senders - len(self._idle_senders) - 1
        share = -(-len(self._waiting) // max(1, ROUTER_BATCHES_IN_FLIGHT - others))
        return min(ROUTER_BATCH_MAX, share)

    async def _send(self, batch: list[PendingCommand]) -> None:
        self._in_flight.update(batch)
        began, earlier = self._loop.time(), self._earlier
        try:
            replies = decode_replies(await self._peers.execute(self.incarnation, self._encode(batch)))
        except PeerGoneError:
            self._owner.host_gone(self)
            return
        except PeerFailedError as failure:
            self._failed(batch, failure, earlier=earlier)
            return
        finally:
            self._in_flight.difference_update(batch)
            self._call_seconds = self._loop.time() - began
        if self._closed:
            return
        for pending, reply in zip(batch, replies, strict=True):
            self._receive(pending, reply)

    def _failed(self, batch: list[PendingCommand], failure: PeerFailedError, *, earlier: bool) -> None:
        """Queue a batch that the host could not decode again: in the earlier form, and if it was sent so, one
        by one. The outcome of any other batch is unknown."""
        undecodable = str(failure).endswith(UNDECODABLE)
        if self._closed or not undecodable or (earlier and len(batch) == 1):
            for pending in batch:
                self._owner.finish(pending, NotExecuted("unavailable"))
            return
        self._earlier = True
        for pending in reversed(batch):
            pending.sent, pending.alone = False, earlier
            self._waiting.appendleft(pending)

    def _encode(self, batch: list[PendingCommand]) -> bytes:
        now = self._loop.time()
        submissions = []
        for pending in batch:
            pending.sent = True
            submissions.append(pending.submission(now, earlier=self._earlier))
        return encode_batch(CommandBatch(self._caller, submissions))

    def _receive(self, pending: PendingCommand, reply: Reply) -> None:
        if isinstance(reply, Deferred):
            self._defer(pending)
        elif isinstance(reply, NotExecuted) and reply.reason == "not_owner":
            pending.sent = False
            self._owner.reroute(pending)
        else:
            self._owner.finish(pending, reply)

    # --- deferred replies ---------------------------------------------------------------------------------

    def _defer(self, pending: PendingCommand) -> None:
        early = self._early_replies.pop(pending.ticket, None)
        if early is not None:
            self._receive(pending, early)
            return
        self._deferred[pending.ticket] = pending
        if not self._collecting:
            self._collecting = True
            self._owner.spawn(self._collect_replies())

    async def _collect_replies(self) -> None:
        """Collect deferred replies as long as any is outstanding."""
        try:
            while self._deferred and not self._closed:
                for ticket, reply in await self._collect():
                    pending = self._deferred.pop(ticket, None)
                    if pending is None:
                        self._early_replies[ticket] = reply
                    else:
                        self._receive(pending, reply)
        finally:
            self._collecting = False

    async def _collect(self) -> list[tuple[int, Reply]]:
        try:
            payload = await self._peers.collect(self.incarnation, self._caller.encode())
        except PeerGoneError:
            self._owner.host_gone(self)
            return []
        except PeerFailedError:
            await asyncio.sleep(RETRY_SECONDS)
            return []
        return [] if self._closed else decode_collected(payload)
