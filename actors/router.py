"""The way to the owners of cards and programmes.

Commands for one host travel together: while calls to it are under way the next batch collects, so batches
grow with the load and there are no timers. A command whose host dies, or no longer owns its shard, is asked
again of the new owner *under the same command key*, which executes it at most once. Every command is
answered by its deadline. A reply that a host defers is collected later, so that it holds up no other.
"""

from __future__ import annotations

import asyncio
import itertools
import uuid
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from actors.essential import start_essential
from actors.log import TRACE
from actors.peers import UNKNOWN_TABLE, PeerFailedError, PeerGoneError, Peers, RoutingTable
from actors.submission import Parcel, Submission, decode_collected, decode_replies, encode_parcel
from engine.commands import Authorize, Command, target_of
from engine.ids import shard_of
from engine.limits import (
    REST_DEADLINE_MS,
    ROUTER_BACKLOG_MAX,
    ROUTER_BATCH_MAX,
    ROUTER_BATCHES_IN_FLIGHT,
    ROUTER_WAIT_SECONDS_MAX,
)
from engine.replies import Deferred, IdempotencyClaim, NotExecuted, Reply

_UNKNOWN: Final = NotExecuted("unavailable")
SWEEP_SECONDS: Final = 0.05
"""How often deadlines are looked at and unowned commands are offered again."""
RETRY_SECONDS: Final = 0.05


class Errand(msgspec.Struct, eq=False):
    """A command on its way. ``entered`` and ``deadline`` are in the loop's time. ``sent``: the present owner
    may have executed it. ``doubtful``: an earlier owner, which is gone and gave no reply, may have."""

    command: Command
    claim: IdempotencyClaim | None
    presentation: dict[str, Any] | None
    entered: float
    deadline: float
    give_up: float
    done: asyncio.Future[Reply]
    ticket: int
    trace: str | None = None
    sent: bool = False
    doubtful: bool = False
    repeat: bool = False


class Lane:
    """The commands for one life of one host."""

    def __init__(self, incarnation: str) -> None:
        self.incarnation = incarnation
        self.waiting: deque[Errand] = deque()
        self.calls = 0
        self.call_seconds = 0.0
        """How long the last call took."""
        self.under_way: set[Errand] = set()
        self.deferred: dict[int, Errand] = {}
        """Commands whose replies come later, by ticket."""
        self.early: dict[int, Reply] = {}
        """Replies that were collected before their batch was back."""
        self.collecting = False
        self.gone = False

    def errands(self) -> list[Errand]:
        """Every command that has no reply yet."""
        return [*self.under_way, *self.deferred.values(), *self.waiting]


class Router:
    """One for each process that sends commands. ``start`` before the first ``submit``; ``stop`` twice is
    harmless."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._table = UNKNOWN_TABLE
        self._lanes: dict[str, Lane] = {}
        self._unowned: deque[Errand] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._name = uuid.uuid4().hex
        self._tickets = itertools.count(1)
        self._busy = asyncio.Event()
        self.open = 0
        """Commands that have no reply yet."""

    def start(self) -> None:
        """Follow the routing table and keep deadlines."""
        self._spawn(self._follow_table())
        self._spawn(self._sweep())

    async def stop(self) -> None:
        """Stop; commands without a reply hear that their outcome is not known."""
        unanswered = self._all()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for errand in unanswered:
            self._finish(errand, NotExecuted("unavailable"))

    def submit(
        self,
        command: Command,
        *,
        claim: IdempotencyClaim | None = None,
        presentation: dict[str, Any] | None = None,
        timeout_ms: int = REST_DEADLINE_MS,
        patience_ms: int | None = None,
        trace: str | None = None,
        repeat: bool = False,
    ) -> asyncio.Future[Reply]:
        """Have the owner execute ``command``; the future always gets a reply.

        No owner begins with it after ``timeout_ms``; the reply is waited for until ``patience_ms``
        (default: as long) have passed. ``NotExecuted("unavailable")`` means that the outcome is not known:
        ask again by the same command key. ``trace``: what logs call it, by default what the caller's own do.
        ``repeat``: the network has sent the command before, so its owner looks for a stored reply first.
        """
        done = self._loop.create_future()
        owner = self._owner_of(target_of(command))
        if self.open >= ROUTER_BACKLOG_MAX or (isinstance(command, Authorize) and self._behind(owner)):
            done.set_result(NotExecuted("overloaded"))
            return done
        now = self._loop.time()
        deadline = now + timeout_ms / 1000
        give_up = deadline if patience_ms is None else now + patience_ms / 1000
        ticket, known_as = next(self._tickets), trace or TRACE.get()
        errand = Errand(
            command, claim, presentation, now, deadline, give_up, done, ticket, known_as, repeat=repeat
        )
        self.open += 1
        self._busy.set()
        self._dispatch(errand, owner)
        return done

    @property
    def deferred(self) -> int:
        """Commands that wait for the outside world, and not for a host's time."""
        return sum(len(lane.deferred) for lane in self._lanes.values())

    def congested(self) -> bool:
        """Whether every host's queue is so long that a new authorization would be refused."""
        return bool(self._lanes) and all(map(self._too_long, self._lanes.values()))

    def sheds(self, card_id: str) -> bool:
        """Whether an authorization of this card would wait longer for its owner than it is worth: other
        commands wait, networks and callers say them again anyhow."""
        return self._behind(self._owner_of(card_id))

    def _behind(self, owner: str | None) -> bool:
        lane = None if owner is None else self._lanes.get(owner)
        return lane is not None and self._too_long(lane)

    def _too_long(self, lane: Lane) -> bool:
        """The queue is served in its order: who comes now waits about as long as its first one has, and then
        for the call that takes it along."""
        if not lane.waiting:
            return False
        waited = self._loop.time() - lane.waiting[0].entered
        return waited + lane.call_seconds > ROUTER_WAIT_SECONDS_MAX

    def _owner_of(self, id_: str) -> str | None:
        return self._table.owners[shard_of(id_)]

    def _dispatch(self, errand: Errand, owner: str | None) -> None:
        if owner is None:
            self._unowned.append(errand)
            return
        lane = self._lanes.get(owner)
        if lane is None:
            lane = self._lanes[owner] = Lane(owner)
        lane.waiting.append(errand)
        if lane.calls < ROUTER_BATCHES_IN_FLIGHT:
            self._open_call(lane)

    def _open_call(self, lane: Lane) -> None:
        lane.calls += 1
        self._spawn(self._work(lane))

    async def _work(self, lane: Lane) -> None:
        """Send batches while there are commands; the first takes all that this turn of the loop brings."""
        await asyncio.sleep(0)
        try:
            while lane.waiting and not lane.gone:
                batch = self._take(lane)
                if batch:
                    await self._send(lane, batch)
        finally:
            lane.calls -= 1

    def _take(self, lane: Lane) -> list[Errand]:
        batch: list[Errand] = []
        while lane.waiting and len(batch) < ROUTER_BATCH_MAX:
            errand = lane.waiting.popleft()
            if not errand.done.done():
                batch.append(errand)
        return batch

    async def _send(self, lane: Lane, batch: list[Errand]) -> None:
        lane.under_way.update(batch)
        began = self._loop.time()
        try:
            replies = decode_replies(await self._peers.execute(lane.incarnation, self._encode(batch)))
        except PeerGoneError:
            self._retire(lane)
            return
        except PeerFailedError:
            for errand in batch:
                self._finish(errand, NotExecuted("unavailable"))
            return
        finally:
            lane.under_way.difference_update(batch)
            lane.call_seconds = self._loop.time() - began
        if lane.gone:
            # Its commands have been asked again of the next owner, whose answer is the one that counts.
            return
        for errand, reply in zip(batch, replies, strict=True):
            self._receive(lane, errand, reply)

    def _receive(self, lane: Lane, errand: Errand, reply: Reply) -> None:
        if isinstance(reply, Deferred):
            self._defer(lane, errand)
        elif isinstance(reply, NotExecuted) and reply.reason == "not_owner":
            errand.sent = False
            self._unowned.append(errand)
        else:
            self._finish(errand, reply)

    def _encode(self, batch: list[Errand]) -> bytes:
        now = self._loop.time()
        submissions = []
        for errand in batch:
            errand.sent = True
            remaining_ms = max(0, int((errand.deadline - now) * 1000))
            submissions.append(
                Submission(
                    errand.command,
                    remaining_ms,
                    errand.claim,
                    errand.presentation,
                    errand.ticket,
                    errand.trace,
                    errand.repeat,
                )
            )
        return encode_parcel(Parcel(self._name, submissions))

    def _finish(self, errand: Errand, reply: Reply) -> None:
        """Give the caller its reply. That one owner has not executed the command says nothing about an
        earlier owner that was asked and is gone: the outcome is then not known."""
        if not errand.done.done():
            if errand.doubtful and isinstance(reply, NotExecuted):
                reply = _UNKNOWN
            errand.done.set_result(reply)
            self.open -= 1

    # --- replies that come later ---------------------------------------------------------------------------

    def _defer(self, lane: Lane, errand: Errand) -> None:
        early = lane.early.pop(errand.ticket, None)
        if early is not None:
            self._receive(lane, errand, early)
            return
        lane.deferred[errand.ticket] = errand
        if not lane.collecting:
            lane.collecting = True
            self._spawn(self._collect(lane))

    async def _collect(self, lane: Lane) -> None:
        """Fetch deferred replies as long as there are any to come."""
        try:
            while lane.deferred and not lane.gone:
                for ticket, reply in await self._collected(lane):
                    errand = lane.deferred.pop(ticket, None)
                    if errand is None:
                        lane.early[ticket] = reply
                    else:
                        self._receive(lane, errand, reply)
        finally:
            lane.collecting = False

    async def _collected(self, lane: Lane) -> list[tuple[int, Reply]]:
        try:
            collected = decode_collected(await self._peers.collect(lane.incarnation, self._name.encode()))
        except PeerGoneError:
            self._retire(lane)
            return []
        except PeerFailedError:
            await asyncio.sleep(RETRY_SECONDS)
            return []
        # Of a host that is gone, the commands have been asked again of the next owner.
        return [] if lane.gone else collected

    # --- owners that change -------------------------------------------------------------------------------

    async def _follow_table(self) -> None:
        while True:
            try:
                table = await self._peers.table(self._table.version)
            except (PeerGoneError, PeerFailedError):
                await asyncio.sleep(RETRY_SECONDS)
            else:
                self._adopt(table)

    def _adopt(self, table: RoutingTable) -> None:
        """Commands of hosts that are gone, and those that had no owner, go to the owners of now."""
        self._table = table
        alive = set(table.owners)
        for lane in [lane for lane in self._lanes.values() if lane.incarnation not in alive]:
            self._retire(lane)
        self._offer_unowned()

    def _retire(self, lane: Lane) -> None:
        """The host is dead, or frozen and no longer an owner: whatever it had is asked again of the next
        owner."""
        lane.gone = True
        if self._lanes.get(lane.incarnation) is lane:
            del self._lanes[lane.incarnation]
        for errand in (*lane.under_way, *lane.deferred.values()):
            errand.doubtful = True
        self._unowned.extend(errand for errand in lane.errands() if not errand.done.done())
        lane.under_way.clear()
        lane.deferred.clear()
        lane.waiting.clear()

    def _offer_unowned(self) -> None:
        unowned, self._unowned = self._unowned, deque()
        for errand in unowned:
            if not errand.done.done():
                self._dispatch(errand, self._owner_of(target_of(errand.command)))

    # --- deadlines ----------------------------------------------------------------------------------------

    async def _sweep(self) -> None:
        while True:
            # An idle router sleeps, and does not wake the processor twenty times a second.
            await self._busy.wait()
            await asyncio.sleep(SWEEP_SECONDS)
            now = self._loop.time()
            for errand in self._all():
                if errand.give_up <= now:
                    self._finish(errand, NotExecuted("unavailable" if errand.sent else "deadline"))
            self._offer_unowned()
            # What callers have given up is no longer open, either.
            self.open = sum(not errand.done.done() for errand in self._all())
            if not self.open:
                self._busy.clear()

    def _all(self) -> list[Errand]:
        lanes: Iterable[Lane] = self._lanes.values()
        return [*self._unowned, *(errand for lane in lanes for errand in lane.errands())]

    def _spawn(self, work: Any) -> None:
        task = start_essential(work, "router")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
