"""The router: sends commands to the owners of cards and programmes, and returns their replies.

Commands for one host are sent in batches (``host_queue``). If a host dies, or no longer owns a shard, the
router sends its commands to the new owner *under the same command key*, so each is executed at most once.
Every command gets a reply by its deadline.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import Coroutine
from typing import Any, Final

from actors.essential import start_essential
from actors.host_queue import RETRY_SECONDS, HostQueue, PendingCommand
from actors.log import TRACE
from actors.peers import UNKNOWN_TABLE, PeerFailedError, PeerGoneError, Peers, RoutingTable
from actors.tracing import PARENT, Tracer, command_name, reply_attributes
from engine.acts import Act
from engine.commands import Authorize, Command, target_of
from engine.ids import shard_of
from engine.limits import REST_DEADLINE_MS, ROUTER_BACKLOG_MAX
from engine.replies import IdempotencyClaim, NotExecuted, Reply

SWEEP_SECONDS: Final = 0.05
"""Interval between checks of deadlines and of commands without an owner."""
_UNKNOWN: Final = NotExecuted("unavailable")


class Router:
    """One for each process that sends commands. Call ``start`` before the first ``submit``; ``stop`` is safe
    to call twice."""

    def __init__(self, peers: Peers, tracer: Tracer | None = None) -> None:
        self._peers = peers
        self._tracer = tracer
        self._table = UNKNOWN_TABLE
        self._queues: dict[str, HostQueue] = {}
        self._unowned: deque[PendingCommand] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._name = uuid.uuid4().hex
        self._tickets = itertools.count(1)
        self._busy = asyncio.Event()
        self.open = 0
        """The number of commands without a reply."""

    def start(self) -> None:
        """Start following the routing table and checking deadlines."""
        self.spawn(self._follow_table())
        self.spawn(self._sweep())

    async def stop(self) -> None:
        """Stop; the outcome of commands without a reply is unknown (``unavailable``)."""
        unanswered = self._unanswered()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for pending in unanswered:
            self.finish(pending, _UNKNOWN)

    def submit(
        self,
        command: Command,
        *,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
        timeout_ms: int = REST_DEADLINE_MS,
        reply_timeout_ms: int | None = None,
        trace: str | None = None,
        repeat: bool = False,
        act: Act | None = None,
    ) -> asyncio.Future[Reply]:
        """Have the owner execute ``command``; the future always gets a reply.

        No owner starts the command after ``timeout_ms``. The reply arrives within ``reply_timeout_ms``
        (default: ``timeout_ms``). ``NotExecuted("unavailable")`` means that the outcome is unknown: submit
        the command again under the same command key.

        ``trace`` is the request's name in logs (default: the caller's). ``repeat``: the network has sent the
        command before, so the owner looks for a stored reply first. ``act``: the administrative act whose row
        commits with the effect.
        """
        done = self._loop.create_future()
        owner = self._owner_of(target_of(command))
        if self.open >= ROUTER_BACKLOG_MAX or (isinstance(command, Authorize) and self._is_behind(owner)):
            done.set_result(NotExecuted("overloaded"))
            return done
        now = self._loop.time()
        deadline = now + timeout_ms / 1000
        reply_deadline = deadline if reply_timeout_ms is None else now + reply_timeout_ms / 1000
        ticket, trace = next(self._tickets), trace or TRACE.get()
        pending = PendingCommand(
            command,
            claim,
            presentation,
            now,
            deadline,
            reply_deadline,
            done,
            ticket,
            trace,
            repeat=repeat,
            act=act,
        )
        if self._tracer is not None:
            self._trace(self._tracer, pending)
        self.open += 1
        self._busy.set()
        self._dispatch(pending, owner)
        return done

    @property
    def deferred(self) -> int:
        """The number of commands with a deferred reply: they wait for a programme's endpoint, not for a
        host."""
        return sum(queue.deferred for queue in self._queues.values())

    def congested(self) -> bool:
        """Whether the queue of every host is too long for a new authorization."""
        return bool(self._queues) and all(queue.is_too_long() for queue in self._queues.values())

    def should_shed(self, card_id: str) -> bool:
        """Whether an authorization of this card would be refused, because the queue of its owner is too long.
        Only authorizations are shed: networks and callers repeat the other commands anyway."""
        return self._is_behind(self._owner_of(card_id))

    # --- for the queues -----------------------------------------------------------------------------------

    def finish(self, pending: PendingCommand, reply: Reply) -> None:
        """Give the caller its reply. A refusal proves nothing about an earlier owner that may have executed
        the command; the outcome of a doubtful command is then unknown."""
        if not pending.reply.done():
            if pending.doubtful and isinstance(reply, NotExecuted):
                reply = _UNKNOWN
            pending.reply.set_result(reply)
            self.open -= 1
            if pending.span is not None:
                pending.span.end(reply_attributes(reply), failed=isinstance(reply, NotExecuted))

    def reroute(self, pending: PendingCommand) -> None:
        """Send the command to the owner that a later routing table names."""
        self._unowned.append(pending)

    def host_gone(self, queue: HostQueue) -> None:
        """The host is dead, or frozen and no longer an owner: reroute its commands."""
        if self._queues.get(queue.incarnation) is queue:
            del self._queues[queue.incarnation]
        self._unowned.extend(queue.close())

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run ``work`` until the router stops. An exception ends the process."""
        task = start_essential(work, "router")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @staticmethod
    def _trace(tracer: Tracer, pending: PendingCommand) -> None:
        command, trace = pending.command, pending.trace
        attributes = {"stanchion.command": command_name(command), "stanchion.trace": trace}
        pending.span = tracer.start("router", PARENT.get(), kind="client", attributes=attributes)

    # --- owners -------------------------------------------------------------------------------------------

    def _owner_of(self, id_: str) -> str | None:
        return self._table.owners[shard_of(id_)]

    def _is_behind(self, owner: str | None) -> bool:
        queue = None if owner is None else self._queues.get(owner)
        return queue is not None and queue.is_too_long()

    def _dispatch(self, pending: PendingCommand, owner: str | None) -> None:
        if owner is None:
            self._unowned.append(pending)
            return
        queue = self._queues.get(owner)
        if queue is None:
            queue = self._queues[owner] = HostQueue(owner, self._peers, self, self._name)
        queue.add(pending)

    async def _follow_table(self) -> None:
        while True:
            try:
                table = await self._peers.table(self._table.version)
            except (PeerGoneError, PeerFailedError):
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._adopt(table)

    def _adopt(self, table: RoutingTable) -> None:
        """Reroute the commands of hosts that own nothing any more, and those without an owner."""
        for reserve in set(table.reserves).difference(self._table.reserves):
            self.spawn(self._peers.prepare(reserve))
        self._table = table
        alive = set(table.owners)
        for queue in [queue for queue in self._queues.values() if queue.incarnation not in alive]:
            self.host_gone(queue)
        self._dispatch_unowned()

    def _dispatch_unowned(self) -> None:
        unowned, self._unowned = self._unowned, deque()
        for pending in unowned:
            if not pending.reply.done():
                self._dispatch(pending, self._owner_of(target_of(pending.command)))

    # --- deadlines ----------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            # An idle router waits for a command and does not wake the processor twenty times a second.
            await self._busy.wait()
            await asyncio.sleep(SWEEP_SECONDS)
            now = self._loop.time()
            for pending in self._unanswered():
                if pending.reply_deadline <= now:
                    self.finish(pending, NotExecuted("unavailable" if pending.sent else "deadline"))
            self._dispatch_unowned()
            # Counted again: callers can have cancelled their futures.
            self.open = sum(not pending.reply.done() for pending in self._unanswered())
            if not self.open:
                self._busy.clear()

    def _unanswered(self) -> list[PendingCommand]:
        queued = itertools.chain.from_iterable(queue.unanswered() for queue in self._queues.values())
        return [*self._unowned, *queued]
