"""The open wake-ups of a dispatcher, and their acknowledgement when their deliveries are recorded."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from actors.batcher import Batcher
from actors.outbox.stream import StreamEntry, StreamUnavailableError
from engine.limits import WAKE_UPS_AT_ONCE_MAX


class WakeUpSource(Protocol):
    """See ``actors.outbox.stream.WakeUpStream``."""

    async def read(self, count: int) -> list[StreamEntry]: ...
    async def take_over(self, count: int) -> list[StreamEntry]: ...
    async def acknowledge(self, entry_ids: Sequence[str]) -> None: ...


class OpenWakeUps:
    """Entries of the stream by delivery, from their arrival until the delivery's attempt is recorded."""

    def __init__(self, stream: WakeUpSource) -> None:
        self._stream = stream
        self._entry_ids: dict[str, str] = {}
        self._batcher: Batcher[str] = Batcher(self._flush, WAKE_UPS_AT_ONCE_MAX)

    def __contains__(self, delivery_id: str) -> bool:
        return delivery_id in self._entry_ids

    def add(self, delivery_id: str, entry_id: str) -> None:
        """Remember the entry of a delivery."""
        self._entry_ids[delivery_id] = entry_id

    def forget(self, delivery_id: str) -> None:
        """Leave the entry unacknowledged: after a while a dispatcher takes it over."""
        self._entry_ids.pop(delivery_id, None)

    def acknowledge(self, entry_ids: Sequence[str]) -> None:
        """Acknowledge entries in the background."""
        if entry_ids:
            self._batcher.add(entry_ids)

    def finish(self, delivery_ids: Iterable[str]) -> None:
        """Acknowledge the entries of these deliveries, where there are any."""
        found = [self._entry_ids.pop(delivery_id, None) for delivery_id in delivery_ids]
        self.acknowledge([entry_id for entry_id in found if entry_id is not None])

    async def drain(self) -> None:
        """Wait for all acknowledgements."""
        await self._batcher.drain()

    async def _flush(self, entry_ids: list[str]) -> None:
        try:
            await self._stream.acknowledge(entry_ids)
        except StreamUnavailableError:
            pass  # they are read again, and their deliveries are no longer due
