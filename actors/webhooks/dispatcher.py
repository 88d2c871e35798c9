"""The dispatcher: it finds due deliveries, sends them, and records the results.

Three loops drive the attempts. *Hearing* reads wake-ups from the stream. *Sweeping* searches the database for
retries that are due and for wake-ups that Redis has lost. Both only name candidates; *claiming* asks the
database which of them are due, begins their attempts there, and starts them here. Several dispatchers share
the work without coordination, because a claimed row is not found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
import structlog

from actors.batcher import Batcher
from actors.clock import Clock
from actors.database import DatabaseUnavailableError
from actors.essential import start_essential
from actors.metrics import Histogram
from actors.outbox.stream import Entry, StreamUnavailableError
from actors.webhooks.book import NO_ID, Claimed
from actors.webhooks.delivery import INTERRUPTED, Claim, Ending, unanswered
from actors.webhooks.lanes import Lanes, count_by
from engine.limits import (
    ATTEMPT_SLOW_SECONDS,
    CLAIM_BATCH_MAX,
    CLAIM_ENDPOINTS_MAX,
    CLAIM_FRESH_SECONDS,
    CLAIM_PACE_SECONDS,
    CLAIM_REST_SECONDS_MAX,
    CLAIM_RESTS,
    DELIVERY_SWEEP_ENDPOINTS_MAX,
    DELIVERY_SWEEP_SECONDS,
    DISPATCHER_STOP_SECONDS,
    RECORD_BATCH_MAX,
    WAKE_UPS_AT_ONCE_MAX,
)

RECORD_ATTEMPTS: Final = 20
"""Tries to record a batch of endings, up to a second apart; afterwards the attempts count as lost."""
_PAUSE_SECONDS: Final = 0.5
_RECORD_PAUSE_SECONDS_MIN: Final = 0.05
_RECORD_PAUSE_SECONDS_MAX: Final = 1.0
_TAKE_OVER_SWEEPS: Final = 15

_log = structlog.get_logger(__name__)


class Book(Protocol):
    """See ``actors.webhooks.book.DeliveryBook``."""

    async def claim(self, delivery_ids: Sequence[str], rooms: Mapping[str, int]) -> Claimed: ...
    async def record(self, endings: Sequence[Ending]) -> None: ...
    async def waiting(self, after: str, limit: int) -> list[tuple[str, bool]]: ...


class WakeUps(Protocol):
    """See ``actors.outbox.stream.Stream``."""

    async def read(self, count: int) -> list[Entry]: ...
    async def take_over(self, count: int) -> list[Entry]: ...
    async def acknowledge(self, entry_ids: Sequence[str]) -> None: ...


class Sends(Protocol):
    """See ``actors.webhooks.sender.Sender``."""

    async def send(self, claim: Claim) -> Ending: ...


class DispatcherCounts(msgspec.Struct):
    """Counters since the dispatcher started."""

    endings: dict[str, int] = {}
    """Attempts by kind of ending."""
    delivered: int = 0
    unrecorded: int = 0
    """Endings that could not be recorded."""
    failures: int = 0
    """Claims that failed."""


class Dispatcher:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(self, book: Book, sender: Sends, stream: WakeUps, clock: Clock) -> None:
        self.counts = DispatcherCounts()
        self.seconds = Histogram()
        """Durations of attempts."""
        self.lanes = Lanes()
        self._book = book
        self._sender = sender
        self._stream = stream
        self._clock = clock
        self._named: dict[str, str] = {}
        """Deliveries to claim, with their endpoints; a place is reserved for each."""
        self._entries: dict[str, str] = {}
        """Wake-ups to acknowledge, by delivery."""
        self._wanted = asyncio.Event()
        self._stopping = False
        self._after = NO_ID
        self._attempts: set[asyncio.Task[None]] = set()
        self._records: Batcher[Ending] = Batcher(self._record, RECORD_BATCH_MAX)
        self._acknowledgements: Batcher[str] = Batcher(self._acknowledge, WAKE_UPS_AT_ONCE_MAX)
        self._claiming: asyncio.Task[None] | None = None
        self._listening: list[asyncio.Task[None]] = []

    # --- life ---------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver, in the background."""
        if self._claiming is None:
            self._claiming = start_essential(self._claim_on(), "claims")
            self._listening = [
                start_essential(self._hear_on(), "wake-ups"),
                start_essential(self._sweep_on(), "deliveries"),
            ]

    async def stop(self) -> None:
        """Begin no attempts, wait for open attempts for a limited time, and record their endings."""
        self._stopping = True
        self._wanted.set()
        for task in self._listening:
            task.cancel()
        await asyncio.gather(*self._listening, return_exceptions=True)
        if self._claiming is not None:
            # An open claim still sends the attempts it has begun.
            await asyncio.gather(self._claiming, return_exceptions=True)
        if self._attempts:
            await asyncio.wait(self._attempts, timeout=DISPATCHER_STOP_SECONDS)
        for attempt in tuple(self._attempts):
            attempt.cancel()
        await asyncio.gather(*self._attempts, return_exceptions=True)
        await _no_longer_than(DISPATCHER_STOP_SECONDS, self.settle())

    async def settle(self) -> None:
        """Wait until every attempt has ended and is recorded."""
        while self._attempts:
            await asyncio.wait(self._attempts)
        await self._records.drain()
        await self._acknowledgements.drain()

    # --- what to look for ---------------------------------------------------------------------------------

    def hear(self, entries: Sequence[Entry]) -> None:
        """Queue the deliveries that wake-ups name. Wake-ups for endpoints without room are acknowledged at
        once: their deliveries wait in the database."""
        heard: list[str] = []
        for entry in entries:
            wake_up = entry.wake_up
            if (
                wake_up is None
                or wake_up.delivery_id in self._entries
                or not self.lanes.take(wake_up.endpoint_id)
            ):
                heard.append(entry.entry_id)
            else:
                self._named[wake_up.delivery_id] = wake_up.endpoint_id
                self._entries[wake_up.delivery_id] = entry.entry_id
        if heard:
            self._acknowledgements.add(heard)
        self._want()

    async def sweep(self) -> bool:
        """Search some endpoints for due deliveries; returns whether more endpoints remain. Raises
        ``DatabaseUnavailableError``."""
        waiting = await self._book.waiting(self._after, DELIVERY_SWEEP_ENDPOINTS_MAX)
        for endpoint_id, due in waiting:
            if due:
                self.lanes.fall_behind(endpoint_id)
        more = len(waiting) == DELIVERY_SWEEP_ENDPOINTS_MAX
        self._after = waiting[-1][0] if more else NO_ID
        self._want()
        return more

    # The Redis client can swallow a cancellation, so these loops check for a stop themselves.

    async def _hear_on(self) -> None:
        while not self._stopping:
            try:
                if self.lanes.free:
                    self.hear(await self._stream.read(min(self.lanes.free, WAKE_UPS_AT_ONCE_MAX)))
                else:
                    # Another dispatcher may have free places.
                    await asyncio.sleep(CLAIM_PACE_SECONDS)
            except StreamUnavailableError:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _sweep_on(self) -> None:
        sweeps = 0
        while not self._stopping:
            more = False
            try:
                more = await self.sweep()
                if sweeps % _TAKE_OVER_SWEEPS == 0:
                    self.hear(await self._stream.take_over(WAKE_UPS_AT_ONCE_MAX))
            except (DatabaseUnavailableError, StreamUnavailableError) as failure:
                _log.info("sweep_waits", error=str(failure))
            sweeps += 1
            await asyncio.sleep(CLAIM_PACE_SECONDS if more else DELIVERY_SWEEP_SECONDS)

    # --- claiming -----------------------------------------------------------------------------------------

    def _want(self) -> None:
        if self._named or self.lanes.behind:
            self._wanted.set()

    async def _claim_on(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            if self._stopping:
                return
            asked = loop.time()
            try:
                began = await self.claim_batch()
            except Exception as failure:  # noqa: BLE001 - whatever happened, the next claim must be tried
                self.counts.failures += 1
                _log.warning("claim_failed", error=type(failure).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)
                self._want()
            else:
                if began:
                    self._want()
                    await asyncio.sleep(_pause_after(loop.time() - asked))

    async def claim_batch(self) -> bool:
        """Claim the candidates that are due and start their attempts; returns whether there were candidates.
        Raises ``DatabaseUnavailableError``."""
        named = dict(list(self._named.items())[:CLAIM_BATCH_MAX])
        rooms = self.lanes.catch_up(CLAIM_ENDPOINTS_MAX, CLAIM_BATCH_MAX - len(named))
        if not named and not rooms:
            return False
        for delivery_id in named:
            del self._named[delivery_id]
        asked = self._clock.monotonic()
        try:
            claimed = await self._book.claim(list(named), rooms)
        except BaseException:
            self._unclaimed(named, rooms)
            raise
        self._start_attempts(claimed.claims, asked)
        self._tidy(named, rooms, claimed)
        return True

    def _unclaimed(self, named: Mapping[str, str], rooms: Mapping[str, int]) -> None:
        """The outcome of the claim is unknown: unclaimed deliveries are still due."""
        for delivery_id, endpoint_id in named.items():
            self._entries.pop(delivery_id, None)
            self.lanes.give_back(endpoint_id)
            self.lanes.fall_behind(endpoint_id)
        for endpoint_id, room in rooms.items():
            self.lanes.give_back(endpoint_id, room)
            self.lanes.fall_behind(endpoint_id)

    def _tidy(self, named: Mapping[str, str], rooms: Mapping[str, int], claimed: Claimed) -> None:
        """Return unused places, and remember endpoints with more due deliveries."""
        taken = count_by(named.values())
        for endpoint_id, room in rooms.items():
            taken[endpoint_id] = taken.get(endpoint_id, 0) + room
        used = count_by(claim.endpoint_id for claim in claimed.claims)
        for endpoint_id, places in taken.items():
            unused = places - used.get(endpoint_id, 0)
            if unused > 0:
                self.lanes.give_back(endpoint_id, unused)
            if endpoint_id in rooms and claimed.found.get(endpoint_id, 0) >= rooms[endpoint_id]:
                self.lanes.fall_behind(endpoint_id)
        begun = {claim.delivery_id for claim in claimed.claims}
        # A wake-up that arrived during the search was acknowledged with that attempt's ending.
        entries = [self._entries.pop(delivery_id, None) for delivery_id in named if delivery_id not in begun]
        done = [entry_id for entry_id in entries if entry_id is not None]
        if done:
            self._acknowledgements.add(done)

    # --- attempts -----------------------------------------------------------------------------------------

    def _start_attempts(self, claims: Sequence[Claim], asked: float) -> None:
        for claim in claims:
            attempt = asyncio.create_task(self._attempt(claim, asked))
            self._attempts.add(attempt)
            attempt.add_done_callback(self._attempts.discard)

    async def _attempt(self, claim: Claim, asked: float) -> None:
        ending = None
        slow = _Slow(self.lanes, claim.endpoint_id)
        try:
            # A process that was frozen must not send a delivery that another dispatcher may have claimed
            # since.
            if self._clock.monotonic() - asked <= CLAIM_FRESH_SECONDS:
                ending = await self._sender.send(claim)
        except asyncio.CancelledError:
            ending = unanswered(claim, round((self._clock.monotonic() - asked) * 1000), INTERRUPTED)
        except Exception as failure:  # noqa: BLE001 - one delivery must not take the others with it
            _log.error("attempt_failed", error=type(failure).__name__)
        was_slow = slow.ended()
        # A receiver that answers does not count as hanging, however slow it is.
        hung = was_slow and (ending is None or ending.status_code is None)
        self.lanes.finish(claim.endpoint_id, slow=was_slow, hung=hung)
        self._want()
        if ending is None:
            self._entries.pop(claim.delivery_id, None)
        else:
            self._ended(ending)

    def _ended(self, ending: Ending) -> None:
        self.counts.endings[ending.kind] = self.counts.endings.get(ending.kind, 0) + 1
        self.counts.delivered += ending.delivered
        self.seconds.observe(ending.latency_ms / 1000)
        self._records.add((ending,))

    async def _record(self, endings: list[Ending]) -> None:
        pause = _RECORD_PAUSE_SECONDS_MIN
        for _ in range(RECORD_ATTEMPTS):
            try:
                await self._book.record(endings)
                break
            except DatabaseUnavailableError as failure:
                _log.info("record_waits", error=str(failure))
                await asyncio.sleep(pause)
                pause = min(2 * pause, _RECORD_PAUSE_SECONDS_MAX)
        else:
            self.counts.unrecorded += len(endings)
        # Recorded or abandoned: in both cases these wake-ups are done.
        ids = [self._entries.pop(ending.claim.delivery_id, None) for ending in endings]
        self._acknowledgements.add([id_ for id_ in ids if id_ is not None])
        if not self._stopping:
            await asyncio.sleep(CLAIM_PACE_SECONDS)

    async def _acknowledge(self, entry_ids: list[str]) -> None:
        if entry_ids:
            try:
                await self._stream.acknowledge(entry_ids)
            except StreamUnavailableError:
                pass  # they are read again, and their deliveries are no longer due


class _Slow:
    """Reports a slow attempt to its lane, once."""

    def __init__(self, lanes: Lanes, endpoint_id: str) -> None:
        self._told = False
        self._lanes = lanes
        self._endpoint_id = endpoint_id
        self._timer = asyncio.get_running_loop().call_later(ATTEMPT_SLOW_SECONDS, self._tell)

    def _tell(self) -> None:
        self._told = True
        self._lanes.become_slow(self._endpoint_id)

    def ended(self) -> bool:
        """Whether the lane was told."""
        self._timer.cancel()
        return self._told


def _pause_after(seconds: float) -> float:
    """Pause before the next claim, so that decisions keep most of the database's time during a backlog."""
    return min(max(CLAIM_PACE_SECONDS, CLAIM_RESTS * seconds), CLAIM_REST_SECONDS_MAX)


async def _no_longer_than(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        pass
