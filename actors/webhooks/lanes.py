"""Limits of concurrent attempts, so that one endpoint never takes the capacity of the others.

Each endpoint has a lane with a cap. All lanes share the dispatcher's places. A slow attempt returns its place
while it continues, so a hanging receiver occupies a place for at most ``ATTEMPT_SLOW_SECONDS``. Lanes that
hang get few attempts, and none while very many attempts hang. Deliveries without room stay in the database,
and their lane is *behind* until a claim finds no more deliveries than there was room for.

The module only counts and has no clock: the dispatcher reports events to it.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from engine.limits import (
    ATTEMPTS_MAX,
    ATTEMPTS_OF_ENDPOINT_MAX,
    ATTEMPTS_OF_SUSPECT_MAX,
    ATTEMPTS_QUICK_MAX,
    ATTEMPTS_SLOW_MAX,
)


class Lane(msgspec.Struct):
    """One endpoint."""

    under_way: int = 0
    """Open attempts and claims."""
    slow: int = 0
    """Slow attempts among them."""
    suspect: bool = False
    """Whether its last attempt was slow and got no answer."""
    behind: bool = False
    """Whether more deliveries may be due in the database."""


class Lanes:
    """The lanes of one dispatcher."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        # In the order of service: the lane that has waited longest comes first.
        self._behind: dict[str, None] = {}
        self.under_way = 0
        self.slow = 0

    @property
    def free(self) -> int:
        """Free places, shared by all endpoints."""
        quick = self.under_way - self.slow
        return max(0, min(ATTEMPTS_QUICK_MAX - quick, ATTEMPTS_MAX - self.under_way))

    @property
    def behind(self) -> int:
        """Endpoints whose deliveries wait in the database."""
        return len(self._behind)

    def room(self, endpoint_id: str) -> int:
        """Attempts that the endpoint's lane has room for, given enough places."""
        lane = self._lanes.get(endpoint_id) or Lane()
        if (lane.suspect or lane.slow) and self.slow >= ATTEMPTS_SLOW_MAX:
            return 0
        cap = ATTEMPTS_OF_SUSPECT_MAX if lane.suspect else ATTEMPTS_OF_ENDPOINT_MAX
        return max(0, cap - lane.under_way)

    def take(self, endpoint_id: str) -> bool:
        """Take a place for one named delivery. Without a free place, or while older deliveries of the
        endpoint wait in the database, mark the lane as behind instead."""
        if endpoint_id in self._behind or not self.free or not self.room(endpoint_id):
            self.fall_behind(endpoint_id)
            return False
        self._occupy(endpoint_id, 1)
        return True

    def fall_behind(self, endpoint_id: str) -> None:
        """Whether more deliveries may be due in the database."""
        self._lane(endpoint_id).behind = True
        self._behind.setdefault(endpoint_id)

    def catch_up(self, endpoints_max: int, deliveries_max: int) -> dict[str, int]:
        """Take places for lanes that are behind, shared fairly; returns the number by endpoint. The lanes are
        then no longer behind."""
        wanting = [id_ for id_ in self._behind if self.room(id_)][:endpoints_max]
        rooms: dict[str, int] = {}
        left = min(self.free, deliveries_max)
        for served, endpoint_id in enumerate(wanting):
            share = max(1, left // (len(wanting) - served))
            taken = min(self.room(endpoint_id), share, left)
            if taken == 0:
                break
            left -= taken
            rooms[endpoint_id] = taken
            self._occupy(endpoint_id, taken)
            self._catch(endpoint_id)
        return rooms

    def give_back(self, endpoint_id: str, places: int = 1) -> None:
        """Return places that were taken and not used."""
        self._leave(endpoint_id, places)

    def become_slow(self, endpoint_id: str) -> None:
        """An attempt has become slow: its place is free for others."""
        self._lane(endpoint_id).slow += 1
        self.slow += 1

    def finish(self, endpoint_id: str, *, slow: bool, hung: bool) -> None:
        """An attempt has ended. ``slow``: ``become_slow`` was called for it; ``hung``: it was slow and got no
        answer."""
        lane = self._lane(endpoint_id)
        lane.suspect = hung
        if slow:
            lane.slow -= 1
            self.slow -= 1
        self._leave(endpoint_id, 1)

    def __len__(self) -> int:
        return len(self._lanes)

    def _lane(self, endpoint_id: str) -> Lane:
        lane = self._lanes.get(endpoint_id)
        if lane is None:
            lane = self._lanes[endpoint_id] = Lane()
        return lane

    def _occupy(self, endpoint_id: str, places: int) -> None:
        self._lane(endpoint_id).under_way += places
        self.under_way += places

    def _leave(self, endpoint_id: str, places: int) -> None:
        lane = self._lanes[endpoint_id]
        lane.under_way -= places
        self.under_way -= places
        self._forget(endpoint_id, lane)

    def _catch(self, endpoint_id: str) -> None:
        self._lanes[endpoint_id].behind = False
        self._behind.pop(endpoint_id, None)

    def _forget(self, endpoint_id: str, lane: Lane) -> None:
        """Forget a lane without state."""
        if lane == Lane():
            del self._lanes[endpoint_id]


def count_by(endpoint_ids: Iterable[str]) -> dict[str, int]:
    """Number of occurrences of each endpoint."""
    counts: dict[str, int] = {}
    for endpoint_id in endpoint_ids:
        counts[endpoint_id] = counts.get(endpoint_id, 0) + 1
    return counts
