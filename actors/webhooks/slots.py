"""Slots for concurrent attempts, so that one endpoint never takes the capacity of the others.

Each endpoint has a cap, and all endpoints share the slots of the dispatcher. A slow attempt returns its slot
while it continues, so a hanging receiver occupies a slot for at most ``ATTEMPT_SLOW_SECONDS``. Endpoints that
hang get few slots, and none while very many attempts hang. Deliveries without a slot stay in the database,
and their endpoint is *behind* until a claim finds fewer due deliveries than it had slots for.

The module only counts and has no clock: the dispatcher reports events to it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.limits import (
    ATTEMPTS_OF_ENDPOINT_MAX,
    ATTEMPTS_OF_SUSPECT_MAX,
    ATTEMPTS_OPEN_MAX,
    ATTEMPTS_QUICK_MAX,
    ATTEMPTS_SLOW_MAX,
)


class EndpointSlots(msgspec.Struct):
    """The slots of one endpoint."""

    taken: int = 0
    """Open attempts and claims."""
    slow: int = 0
    """Slow attempts among them."""
    suspect: bool = False
    """Whether its last attempt was slow and got no answer."""
    behind: bool = False
    """Whether more deliveries may be due in the database."""


class AttemptSlots:
    """The slots of one dispatcher."""

    def __init__(self) -> None:
        self._endpoints: dict[str, EndpointSlots] = {}
        # In the order of service: the endpoint that has waited longest comes first.
        self._behind: dict[str, None] = {}
        self.taken = 0
        self.slow = 0

    @property
    def free(self) -> int:
        """Free slots, shared by all endpoints."""
        quick = self.taken - self.slow
        return max(0, min(ATTEMPTS_QUICK_MAX - quick, ATTEMPTS_OPEN_MAX - self.taken))

    @property
    def endpoints_behind(self) -> int:
        """Number of endpoints whose deliveries wait in the database."""
        return len(self._behind)

    def available(self, endpoint_id: str) -> int:
        """Slots that the endpoint's own cap still allows."""
        endpoint = self._endpoints.get(endpoint_id) or EndpointSlots()
        if (endpoint.suspect or endpoint.slow) and self.slow >= ATTEMPTS_SLOW_MAX:
            return 0
        cap = ATTEMPTS_OF_SUSPECT_MAX if endpoint.suspect else ATTEMPTS_OF_ENDPOINT_MAX
        return max(0, cap - endpoint.taken)

    def take(self, endpoint_id: str) -> bool:
        """Take a slot for one known delivery. If there is none, or older deliveries of the endpoint wait in
        the database, mark the endpoint as behind instead."""
        if endpoint_id in self._behind or not self.free or not self.available(endpoint_id):
            self.mark_behind(endpoint_id)
            return False
        self._add(endpoint_id, 1)
        return True

    def mark_behind(self, endpoint_id: str) -> None:
        """Deliveries of the endpoint may be due in the database."""
        self._endpoint(endpoint_id).behind = True
        self._behind.setdefault(endpoint_id)

    def take_for_backlog(self, endpoints_max: int, deliveries_max: int) -> dict[str, int]:
        """Take slots for endpoints that are behind, shared fairly; returns the number by endpoint. These
        endpoints are then no longer behind."""
        served = [id_ for id_ in self._behind if self.available(id_)][:endpoints_max]
        slots: dict[str, int] = {}
        left = min(self.free, deliveries_max)
        for number, endpoint_id in enumerate(served):
            share = max(1, left // (len(served) - number))
            taken = min(self.available(endpoint_id), share, left)
            if taken == 0:
                break
            left -= taken
            slots[endpoint_id] = taken
            self._add(endpoint_id, taken)
            self._clear_behind(endpoint_id)
        return slots

    def release(self, endpoint_id: str, slots: int = 1) -> None:
        """Return slots that were taken and not used."""
        self._remove(endpoint_id, slots)

    def mark_slow(self, endpoint_id: str) -> None:
        """An attempt has become slow: its slot is free for others."""
        self._endpoint(endpoint_id).slow += 1
        self.slow += 1

    def finish(self, endpoint_id: str, *, slow: bool, hung: bool) -> None:
        """An attempt has ended. ``slow``: ``mark_slow`` was called for it; ``hung``: it was slow and got no
        answer."""
        endpoint = self._endpoint(endpoint_id)
        endpoint.suspect = hung
        if slow:
            endpoint.slow -= 1
            self.slow -= 1
        self._remove(endpoint_id, 1)

    def __len__(self) -> int:
        return len(self._endpoints)

    def _endpoint(self, endpoint_id: str) -> EndpointSlots:
        endpoint = self._endpoints.get(endpoint_id)
        if endpoint is None:
            endpoint = self._endpoints[endpoint_id] = EndpointSlots()
        return endpoint

    def _add(self, endpoint_id: str, slots: int) -> None:
        self._endpoint(endpoint_id).taken += slots
        self.taken += slots

    def _remove(self, endpoint_id: str, slots: int) -> None:
        endpoint = self._endpoints[endpoint_id]
        endpoint.taken -= slots
        self.taken -= slots
        if endpoint == EndpointSlots():
            del self._endpoints[endpoint_id]

    def _clear_behind(self, endpoint_id: str) -> None:
        self._endpoints[endpoint_id].behind = False
        self._behind.pop(endpoint_id, None)


def count_by_endpoint(endpoint_ids: Iterable[str]) -> dict[str, int]:
    """Number of occurrences of each endpoint."""
    counts: dict[str, int] = {}
    for endpoint_id in endpoint_ids:
        counts[endpoint_id] = counts.get(endpoint_id, 0) + 1
    return counts
