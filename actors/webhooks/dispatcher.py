"""The dispatcher: it finds due deliveries, sends them, and records the results.

Four background tasks drive the attempts. One *reads wake-ups* from the stream, another *takes over* wake-ups
that their reader has left unacknowledged. The *sweep* searches the database for retries that are due and for
wake-ups that Redis has lost. All three only name candidates. The *claiming* task asks the database which of
them are due, begins their attempts there, and starts them here. Several dispatchers share the work without
coordination, because a claimed row is not found again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, Final, Protocol

import structlog

from actors.clock import Clock
from actors.database import DatabaseUnavailableError
from actors.essential import start_essential
from actors.outbox.stream import StreamEntry, StreamUnavailableError
from actors.periodic import PeriodicTask
from actors.webhooks.attempts import Attempts, AttemptSender
from actors.webhooks.delivery import AttemptResult
from actors.webhooks.delivery_store import NO_ID, ClaimResult
from actors.webhooks.recording import AttemptRecorder
from actors.webhooks.slots import AttemptSlots, count_by_endpoint
from actors.webhooks.wake_ups import OpenWakeUps, WakeUpSource
from engine.limits import (
    CLAIM_BATCH_MAX,
    CLAIM_ENDPOINTS_MAX,
    CLAIM_PAUSE_FACTOR,
    CLAIM_PAUSE_SECONDS_MAX,
    CLAIM_PAUSE_SECONDS_MIN,
    DELIVERY_SWEEP_ENDPOINTS_MAX,
    DELIVERY_SWEEP_SECONDS,
    DISPATCHER_STOP_SECONDS,
    WAKE_UPS_AT_ONCE_MAX,
)

TAKE_OVER_SECONDS: Final = 15.0
"""Interval between searches for wake-ups of readers that have ended."""
_PAUSE_SECONDS: Final = 0.5
"""Pause after a failed claim or a failed read of the stream."""

_log = structlog.get_logger(__name__)


class Store(Protocol):
    """See ``actors.webhooks.delivery_store.DeliveryStore``."""

    async def claim(self, delivery_ids: Sequence[str], slots: Mapping[str, int]) -> ClaimResult: ...
    async def record(self, results: Sequence[AttemptResult]) -> None: ...
    async def find_pending_endpoints(self, after: str, limit: int) -> list[tuple[str, bool]]: ...


class Dispatcher:
    """``start`` and ``stop`` it once each; a second ``stop`` is harmless."""

    def __init__(self, store: Store, sender: AttemptSender, stream: WakeUpSource, clock: Clock) -> None:
        self.claim_failures = 0
        self.slots = AttemptSlots()
        self.recorder = AttemptRecorder(store.record, self._recorded)
        self._store = store
        self._stream = stream
        self._clock = clock
        self._wake_ups = OpenWakeUps(stream)
        self.attempts = Attempts(
            sender, self.slots, self.recorder, self._wake_ups, clock, self._wake_claiming
        )
        self._candidates: dict[str, str] = {}
        """Deliveries to claim, with their endpoints; a slot is taken for each."""
        self._has_candidates = asyncio.Event()
        self._stopping = False
        self._after = NO_ID
        """Endpoint at which the next sweep continues."""
        self._claiming: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        self._sweeping = PeriodicTask(
            "deliveries", self._sweep, DELIVERY_SWEEP_SECONDS, tolerated=(DatabaseUnavailableError,)
        )
        self._taking_over = PeriodicTask(
            "wake-up take-over", self._take_over, TAKE_OVER_SECONDS, tolerated=(StreamUnavailableError,)
        )

    # --- start and stop -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to deliver, in the background."""
        if self._claiming is None:
            self._claiming = start_essential(self._claim_until_stopped(), "claims")
            self._reading = start_essential(self._read_until_stopped(), "wake-ups")
            self._sweeping.start()
            self._taking_over.start()

    async def stop(self) -> None:
        """Begin no attempts, wait for open attempts for a limited time, and record their results."""
        self._stopping = True
        self.recorder.skip_pauses()
        self._has_candidates.set()
        await self._sweeping.stop()
        await self._taking_over.stop()
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        if self._claiming is not None:
            # An open claim still sends the attempts it has begun.
            await asyncio.gather(self._claiming, return_exceptions=True)
        await self.attempts.stop()
        await _run_at_most(DISPATCHER_STOP_SECONDS, self.drain())

    async def drain(self) -> None:
        """Wait until every attempt has ended and is recorded."""
        await self.attempts.drain()
        await self.recorder.drain()
        await self._wake_ups.drain()

    # --- candidates ---------------------------------------------------------------------------------------

    def accept(self, entries: Sequence[StreamEntry]) -> None:
        """Queue the deliveries that wake-ups name. Wake-ups for endpoints without a free slot are
        acknowledged at once: their deliveries wait in the database."""
        done: list[str] = []
        for entry in entries:
            wake_up = entry.wake_up
            if (
                wake_up is None
                or wake_up.delivery_id in self._wake_ups
                or not self.slots.take(wake_up.endpoint_id)
            ):
                done.append(entry.entry_id)
            else:
                self._candidates[wake_up.delivery_id] = wake_up.endpoint_id
                self._wake_ups.add(wake_up.delivery_id, entry.entry_id)
        self._wake_ups.acknowledge(done)
        self._wake_claiming()

    async def sweep(self) -> bool:
        """Search some endpoints for due deliveries; returns whether more endpoints remain. Raises
        ``DatabaseUnavailableError``."""
        pending = await self._store.find_pending_endpoints(self._after, DELIVERY_SWEEP_ENDPOINTS_MAX)
        for endpoint_id, due in pending:
            if due:
                self.slots.mark_behind(endpoint_id)
        more = len(pending) == DELIVERY_SWEEP_ENDPOINTS_MAX
        self._after = pending[-1][0] if more else NO_ID
        self._wake_claiming()
        return more

    async def _sweep(self) -> float:
        return CLAIM_PAUSE_SECONDS_MIN if await self.sweep() else DELIVERY_SWEEP_SECONDS

    async def _take_over(self) -> None:
        self.accept(await self._stream.take_over(WAKE_UPS_AT_ONCE_MAX))

    async def _read_until_stopped(self) -> None:
        # The Redis client can swallow a cancellation, so this loop checks for a stop itself.
        while not self._stopping:
            try:
                if self.slots.free:
                    self.accept(await self._stream.read(min(self.slots.free, WAKE_UPS_AT_ONCE_MAX)))
                else:
                    # Another dispatcher may have free slots.
                    await asyncio.sleep(CLAIM_PAUSE_SECONDS_MIN)
            except StreamUnavailableError:
                await asyncio.sleep(_PAUSE_SECONDS)

    # --- claiming -----------------------------------------------------------------------------------------

    def _wake_claiming(self) -> None:
        if self._candidates or self.slots.endpoints_behind:
            self._has_candidates.set()

    async def _claim_until_stopped(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._has_candidates.wait()
            self._has_candidates.clear()
            if self._stopping:
                return
            began_at = loop.time()
            try:
                claimed = await self.claim_batch()
            except Exception as failure:  # noqa: BLE001 - the next claim must be tried after any failure
                self.claim_failures += 1
                _log.warning("claim_failed", error=type(failure).__name__)
                await asyncio.sleep(_PAUSE_SECONDS)
                self._wake_claiming()
            else:
                if claimed:
                    self._wake_claiming()
                    await asyncio.sleep(_pause_after(loop.time() - began_at))

    async def claim_batch(self) -> bool:
        """Claim the candidates that are due and start their attempts; returns whether there were candidates.
        Raises ``DatabaseUnavailableError``."""
        candidates = dict(list(self._candidates.items())[:CLAIM_BATCH_MAX])
        slots = self.slots.take_for_backlog(CLAIM_ENDPOINTS_MAX, CLAIM_BATCH_MAX - len(candidates))
        if not candidates and not slots:
            return False
        for delivery_id in candidates:
            del self._candidates[delivery_id]
        claimed_at = self._clock.monotonic()
        try:
            result = await self._store.claim(list(candidates), slots)
        except BaseException:
            self._return_all_slots(candidates, slots)
            raise
        self.attempts.start(result.leases, claimed_at)
        self._return_unused_slots(candidates, slots, result)
        return True

    def _return_all_slots(self, candidates: Mapping[str, str], slots: Mapping[str, int]) -> None:
        """The outcome of the claim is unknown: deliveries that it did not claim are still due."""
        for delivery_id, endpoint_id in candidates.items():
            self._wake_ups.forget(delivery_id)
            self.slots.release(endpoint_id)
            self.slots.mark_behind(endpoint_id)
        for endpoint_id, count in slots.items():
            self.slots.release(endpoint_id, count)
            self.slots.mark_behind(endpoint_id)

    def _return_unused_slots(
        self, candidates: Mapping[str, str], slots: Mapping[str, int], result: ClaimResult
    ) -> None:
        """Also mark endpoints that may have more due deliveries, and acknowledge wake-ups without an
        attempt."""
        taken = count_by_endpoint(candidates.values())
        for endpoint_id, count in slots.items():
            taken[endpoint_id] = taken.get(endpoint_id, 0) + count
        used = count_by_endpoint(lease.endpoint_id for lease in result.leases)
        for endpoint_id, count in taken.items():
            unused = count - used.get(endpoint_id, 0)
            if unused > 0:
                self.slots.release(endpoint_id, unused)
            if endpoint_id in slots and result.due_by_endpoint.get(endpoint_id, 0) >= slots[endpoint_id]:
                self.slots.mark_behind(endpoint_id)
        begun = {lease.delivery_id for lease in result.leases}
        # A wake-up that arrived during the search was acknowledged with that attempt's result.
        self._wake_ups.finish(delivery_id for delivery_id in candidates if delivery_id not in begun)

    def _recorded(self, results: Sequence[AttemptResult]) -> None:
        self._wake_ups.finish(result.lease.delivery_id for result in results)


def _pause_after(seconds: float) -> float:
    """Pause before the next claim, so that decisions keep most of the database's time during a backlog."""
    return min(max(CLAIM_PAUSE_SECONDS_MIN, CLAIM_PAUSE_FACTOR * seconds), CLAIM_PAUSE_SECONDS_MAX)


async def _run_at_most(seconds: float, work: Coroutine[Any, Any, None]) -> None:
    try:
        async with asyncio.timeout(seconds):
            await work
    except TimeoutError:
        pass
