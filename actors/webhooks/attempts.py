"""Open attempts of a dispatcher: each sends one delivery, releases its slot, and queues its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec
import structlog

from actors.clock import Clock
from actors.metrics import Histogram
from actors.webhooks.delivery import INTERRUPTED, AttemptResult, DeliveryLease, unanswered
from actors.webhooks.recording import AttemptRecorder
from actors.webhooks.slots import AttemptSlots
from actors.webhooks.wake_ups import OpenWakeUps
from engine.limits import ATTEMPT_SLOW_SECONDS, DELIVERY_LEASE_FRESH_SECONDS, DISPATCHER_STOP_SECONDS

_log = structlog.get_logger(__name__)


class AttemptSender(Protocol):
    """See ``actors.webhooks.sender.Sender``."""

    async def send(self, lease: DeliveryLease) -> AttemptResult: ...


class AttemptCounts(msgspec.Struct):
    """Counters of ended attempts since the dispatcher started."""

    results: dict[str, int] = {}
    """Attempts by kind of result."""
    delivered: int = 0


class Attempts:
    """The open attempts of one dispatcher. It calls ``slot_released`` when one of them ends."""

    def __init__(
        self,
        sender: AttemptSender,
        slots: AttemptSlots,
        recorder: AttemptRecorder,
        wake_ups: OpenWakeUps,
        clock: Clock,
        slot_released: Callable[[], None],
    ) -> None:
        self.counts = AttemptCounts()
        self.seconds = Histogram()
        """Durations of attempts."""
        self._sender = sender
        self._slots = slots
        self._recorder = recorder
        self._wake_ups = wake_ups
        self._clock = clock
        self._slot_released = slot_released
        self._open: set[asyncio.Task[None]] = set()

    def start(self, leases: Sequence[DeliveryLease], claimed_at: float) -> None:
        """Start an attempt for each lease, which was claimed at ``claimed_at`` by the monotonic clock."""
        for lease in leases:
            attempt = asyncio.create_task(self._attempt(lease, claimed_at))
            self._open.add(attempt)
            attempt.add_done_callback(self._open.discard)

    async def drain(self) -> None:
        """Wait until every attempt has ended."""
        while self._open:
            await asyncio.wait(self._open)

    async def stop(self) -> None:
        """Wait for open attempts for a limited time, then interrupt them."""
        if self._open:
            await asyncio.wait(self._open, timeout=DISPATCHER_STOP_SECONDS)
        for attempt in tuple(self._open):
            attempt.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _attempt(self, lease: DeliveryLease, claimed_at: float) -> None:
        result = None
        slow_timer = _SlowTimer(self._slots, lease.endpoint_id)
        try:
            # A process that was frozen must not send a delivery that another dispatcher may have claimed
            # since.
            if self._clock.monotonic() - claimed_at <= DELIVERY_LEASE_FRESH_SECONDS:
                result = await self._sender.send(lease)
        except asyncio.CancelledError:
            result = unanswered(lease, round((self._clock.monotonic() - claimed_at) * 1000), INTERRUPTED)
        except Exception as failure:  # noqa: BLE001 - a fault in one delivery must not affect the others
            _log.error("attempt_failed", error=type(failure).__name__)
        slow = slow_timer.stop()
        # A receiver that answers does not count as hanging, however slow it is.
        hung = slow and (result is None or result.status_code is None)
        self._slots.finish(lease.endpoint_id, slow=slow, hung=hung)
        self._slot_released()
        if result is None:
            self._wake_ups.forget(lease.delivery_id)
        else:
            self._count(result)
            self._recorder.add(result)

    def _count(self, result: AttemptResult) -> None:
        self.counts.results[result.kind] = self.counts.results.get(result.kind, 0) + 1
        self.counts.delivered += result.delivered
        self.seconds.observe(result.latency_ms / 1000)


class _SlowTimer:
    """Marks an attempt as slow when it takes longer than ``ATTEMPT_SLOW_SECONDS``."""

    def __init__(self, slots: AttemptSlots, endpoint_id: str) -> None:
        self._slow = False
        self._slots = slots
        self._endpoint_id = endpoint_id
        self._timer = asyncio.get_running_loop().call_later(ATTEMPT_SLOW_SECONDS, self._fire)

    def _fire(self) -> None:
        self._slow = True
        self._slots.mark_slow(self._endpoint_id)

    def stop(self) -> bool:
        """Stop the timer; returns whether the attempt was marked as slow."""
        self._timer.cancel()
        return self._slow
