"""How many attempts may be under way, and to whom: one endpoint never uses up what the others need.

Each endpoint has a lane with a cap. All lanes share the places of the dispatcher, and an attempt that takes
long gives its place back while it goes on, so receivers that hang hold nobody up for longer than
``ATTEMPT_SLOW_SECONDS``; lanes known for hanging get few attempts, and none while very many hang. What does
not fit stays in the database, and its lane is *behind* until a claim finds no more than there was room for.

Plain counting without a clock: the dispatcher says what happens.
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
    """Attempts that were begun or are being claimed."""
    slow: int = 0
    """Those of them that have become slow."""
    suspect: bool = False
    """Its last attempt was slow and got no answer."""
    behind: bool = False
    """More may be due in the database."""


class Lanes:
    """The lanes of one dispatcher."""

    def __init__(self) -> None:
        self._lanes: dict[str, Lane] = {}
        # In the order in which they were served: whoever waited longest comes first.
        self._behind: dict[str, None] = {}
        self.under_way = 0
        self.slow = 0

    @property
    def free(self) -> int:
        """Places that are free for attempts to anybody."""
        quick = self.under_way - self.slow
        return max(0, min(ATTEMPTS_QUICK_MAX - quick, ATTEMPTS_MAX - self.under_way))

    @property
    def behind(self) -> int:
        """Endpoints to look for in the database."""
        return len(self._behind)

    def room(self, endpoint_id: str) -> int:
        """Attempts that its lane has room for, if there are places."""
        lane = self._lanes.get(endpoint_id) or Lane()
        if (lane.suspect or lane.slow) and self.slow >= ATTEMPTS_SLOW_MAX:
            return 0
        cap = ATTEMPTS_OF_SUSPECT_MAX if lane.suspect else ATTEMPTS_OF_ENDPOINT_MAX
        return max(0, cap - lane.under_way)

    def take(self, endpoint_id: str) -> bool:
        """Take a place for one delivery that somebody has named. Without one, or while others of the
        endpoint wait in the database before it, the lane is behind instead."""
        if endpoint_id in self._behind or not self.free or not self.room(endpoint_id):
            self.fall_behind(endpoint_id)
            return False
        self._occupy(endpoint_id, 1)
        return True

    def fall_behind(self, endpoint_id: str) -> None:
        """More may be due in the database."""
        self._lane(endpoint_id).behind = True
        self._behind.setdefault(endpoint_id)

    def catch_up(self, endpoints_max: int, deliveries_max: int) -> dict[str, int]:
        """Take places for lanes that are behind, shared out fairly; how many for each. They are not behind
        any more, until something says so again."""
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
        """Places that were taken and not used."""
        self._leave(endpoint_id, places)

    def become_slow(self, endpoint_id: str) -> None:
        """An attempt has been under way for long: its place is free for others."""
        self._lane(endpoint_id).slow += 1
        self.slow += 1

    def finish(self, endpoint_id: str, *, slow: bool, hung: bool) -> None:
        """An attempt has ended. ``slow``: ``become_slow`` was told of it; ``hung``: it was slow and got
        no answer."""
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
        """Only lanes with something to remember are kept."""
        if lane == Lane():
            del self._lanes[endpoint_id]


def count_by(endpoint_ids: Iterable[str]) -> dict[str, int]:
    """How often each endpoint occurs."""
    counts: dict[str, int] = {}
    for endpoint_id in endpoint_ids:
        counts[endpoint_id] = counts.get(endpoint_id, 0) + 1
    return counts
