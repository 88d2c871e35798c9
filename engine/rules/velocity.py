"""Velocity: what a card or an account has bought in a window, kept in its owner's memory.

A ``History`` has one ``Window`` for each velocity that the rules in force use. It is built from the stored
past (``Counted``) and follows each later command (``Change``). It counts what the caps count: approved
purchases at the time of their message, a partial approval with its approved amount, an increment with its
amount and no count; a reversal gives back where the original counted.

A window keeps its newest ``VELOCITY_EXACT_MAX`` purchases one by one. Older ones are merged into buckets. A
bucket leaves the window as a whole, with its newest purchase, and a reversal does not reach into it:
therefore a window may count too much, and never too little.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable
from typing import Final

import msgspec

from engine.limits import (
    VELOCITY_BUCKET_ENTRIES,
    VELOCITY_BUCKETS_MAX,
    VELOCITY_EXACT_MAX,
    VELOCITY_KEYS_MAX,
)
from engine.rules.attributes import ATTRIBUTES, merchant_key
from engine.rules.compile import Predicate, predicate
from engine.rules.model import Condition, Velocity
from engine.rules.observed import Observed
from engine.rules.windows import duration_ms, period_of

DISTINCT: Final = frozenset({"distinct_merchants", "distinct_countries"})
"""Measures that count different merchants or countries."""


class Counted(msgspec.Struct, kw_only=True, gc=False):
    """One authorization, or one increment. ``amount_minor`` and ``count`` are what still counts of it."""

    key: str
    """The authorization's id, or the reference of the increment's message."""
    at_ms: int
    amount_minor: int
    count: int
    declined: bool = False
    requested_minor: int
    mcc: str
    merchant_country: str
    merchant_name: str
    merchant_id: str | None = None
    channel: str | None = None
    entry_mode: str | None = None
    windows: int = 0
    """Number of windows that keep it one by one."""


class Change(msgspec.Struct, frozen=True, gc=False):
    """What still counts of one authorization or increment after a command; ``opened`` describes a new one."""

    key: str
    amount_minor: int
    count: int
    declined: bool = False
    opened: Counted | None = None


class _Bucket(msgspec.Struct, gc=False):
    """Purchases that were merged. ``others`` are those that are not in ``keys``."""

    newest_ms: int
    amount_minor: int = 0
    count: int = 0
    declines: int = 0
    keys: Counter[str] = msgspec.field(default_factory=Counter)
    others: int = 0


def filter_of(where: tuple[Condition, ...]) -> Callable[[Counted], bool] | None:
    """The filter of a velocity as a predicate of a purchase; ``None`` without conditions."""
    if not where:
        return None
    tests: list[tuple[str, Predicate]] = []
    for each in where:
        name = "requested_minor" if each.attribute == "amount" else each.attribute
        tests.append((name, predicate(each, ATTRIBUTES[each.attribute].type)))
    return lambda counted: all(holds(getattr(counted, name)) for name, holds in tests)


class Window:
    """The purchases of one velocity, in the time zone ``zone``, in the order of their times."""

    __slots__ = (
        "_amount_minor",
        "_buckets",
        "_count",
        "_declines",
        "_entries",
        "_keys",
        "_length_ms",
        "_matches",
        "_others",
        "_period",
        "_velocity",
        "_zone",
    )

    def __init__(self, velocity: Velocity, zone: str) -> None:
        self._velocity = velocity
        self._zone = zone
        self._length_ms = None if velocity.window == "lifetime" else duration_ms(velocity.window)
        self._matches = filter_of(velocity.where)
        self._clear("")

    def _clear(self, period: str) -> None:
        self._period = period
        self._entries: deque[Counted] = deque()
        self._buckets: deque[_Bucket] = deque()
        self._amount_minor = self._count = self._declines = self._others = 0
        self._keys: Counter[str] = Counter()

    def __len__(self) -> int:
        """Purchases and buckets in memory."""
        return len(self._entries) + len(self._buckets)

    def add(self, counted: Counted) -> None:
        """Add a purchase, unless the filter or a later calendar period excludes it."""
        if self._matches is not None and not self._matches(counted):
            return
        if self._length_ms is None and not self._opens_period(counted.at_ms):
            return
        index = len(self._entries)
        while index and self._entries[index - 1].at_ms > counted.at_ms:
            index -= 1
        self._entries.insert(index, counted)
        counted.windows += 1
        self._sum(counted, 1)
        if len(self._entries) >= VELOCITY_EXACT_MAX + VELOCITY_BUCKET_ENTRIES:
            self._merge_oldest()

    def observe(self, now_ms: int, counted: Counted) -> Observed:
        """The value at ``now_ms`` without ``counted``, which is being decided."""
        self._expire(now_ms)
        measure = self._velocity.measure
        if measure == "count":
            return Observed(self._count)
        if measure == "amount":
            return Observed(self._amount_minor)
        if measure == "declines":
            return Observed(self._declines)
        return Observed(len(self._keys) + self._others, self._key(counted) in self._keys)

    def holds(self, counted: Counted) -> bool:
        """Whether the window keeps ``counted`` one by one."""
        return any(each is counted for each in self._entries)

    def subtract(self, counted: Counted, sign: int) -> None:
        """Take ``counted`` out of the totals (-1), or put it in again (1), while its figures change."""
        self._sum(counted, sign)

    def _opens_period(self, at_ms: int) -> bool:
        """Whether ``at_ms`` is in the present period. A later one begins with nothing counted."""
        period = period_of(self._velocity.window, at_ms, self._zone)
        if period > self._period:
            self._drop_all()
            self._clear(period)
        return period == self._period

    def _expire(self, now_ms: int) -> None:
        if self._length_ms is None:
            self._opens_period(now_ms)
            return
        since_ms = now_ms - self._length_ms
        while self._buckets and self._buckets[0].newest_ms <= since_ms:
            self._sum_bucket(self._buckets.popleft(), -1)
        while self._entries and self._entries[0].at_ms <= since_ms:
            counted = self._entries.popleft()
            self._sum(counted, -1)
            counted.windows -= 1

    def _drop_all(self) -> None:
        for counted in self._entries:
            counted.windows -= 1

    def _key(self, counted: Counted) -> str:
        if self._velocity.measure == "distinct_countries":
            return counted.merchant_country
        return merchant_key(counted.merchant_id, counted.merchant_name)

    def _sum(self, counted: Counted, sign: int) -> None:
        self._amount_minor += sign * counted.amount_minor
        self._count += sign * counted.count
        self._declines += sign * counted.declined
        if self._velocity.measure in DISTINCT and (counted.count or counted.amount_minor):
            _add_key(self._keys, self._key(counted), sign)

    def _sum_bucket(self, bucket: _Bucket, sign: int) -> None:
        self._amount_minor += sign * bucket.amount_minor
        self._count += sign * bucket.count
        self._declines += sign * bucket.declines
        self._others += sign * bucket.others
        for key, number in bucket.keys.items():
            _add_key(self._keys, key, sign * number)

    def _merge_oldest(self) -> None:
        """Merge the oldest purchases into a bucket; the totals stay."""
        bucket = _Bucket(self._entries[0].at_ms)
        for _ in range(VELOCITY_BUCKET_ENTRIES):
            counted = self._entries.popleft()
            counted.windows -= 1
            bucket.newest_ms = max(bucket.newest_ms, counted.at_ms)
            bucket.amount_minor += counted.amount_minor
            bucket.count += counted.count
            bucket.declines += counted.declined
            if self._velocity.measure in DISTINCT and (counted.count or counted.amount_minor):
                bucket.keys[self._key(counted)] += 1
        self._buckets.append(bucket)
        if len(self._buckets) > VELOCITY_BUCKETS_MAX:
            older = self._buckets.popleft()
            self._sum_bucket(older, -1)
            self._sum_bucket(self._buckets[0], -1)
            self._buckets[0] = _merged(older, self._buckets[0])
            self._sum_bucket(self._buckets[0], 1)


def _add_key(keys: Counter[str], key: str, number: int) -> None:
    keys[key] += number
    if not keys[key]:
        del keys[key]


def _merged(older: _Bucket, newer: _Bucket) -> _Bucket:
    """Both buckets as one. Merchants or countries beyond the limit are counted one by one."""
    keys = older.keys + newer.keys
    others = older.others + newer.others
    if len(keys) > VELOCITY_KEYS_MAX:
        kept = dict(list(keys.items())[:VELOCITY_KEYS_MAX])
        others += sum(number for key, number in keys.items() if key not in kept)
        keys = Counter(kept)
    return _Bucket(
        max(older.newest_ms, newer.newest_ms),
        older.amount_minor + newer.amount_minor,
        older.count + newer.count,
        older.declines + newer.declines,
        keys,
        others,
    )


class History:
    """The windows of one card or one account, by velocity and time zone."""

    def __init__(self) -> None:
        self._windows: dict[tuple[Velocity, str], Window] = {}
        self._known: dict[str, Counted] = {}
        self._meanwhile: list[Change] | None = None
        """Changes during a read of the past."""

    def lacks(self, velocities: Collection[Velocity], zone: str) -> bool:
        """Whether a window is missing: the past must be read first."""
        return any((velocity, zone) not in self._windows for velocity in velocities)

    def begin_loading(self) -> None:
        """The stored past is about to be read: changes from now on may not be in it."""
        self._meanwhile = []

    def load(self, velocities: Iterable[Velocity], zone: str, past: Iterable[Counted]) -> None:
        """Build the windows of ``velocities`` from the stored past, and drop other windows."""
        self._windows = {(velocity, zone): Window(velocity, zone) for velocity in velocities}
        self._known = {}
        for counted in sorted(past, key=lambda each: (each.at_ms, each.key)):
            # Two histories can share the result of one read.
            self._add(msgspec.structs.replace(counted, windows=0))
        meanwhile, self._meanwhile = self._meanwhile or [], None
        self.apply(meanwhile)

    def observe(self, velocity: Velocity, zone: str, now_ms: int, counted: Counted) -> Observed:
        """The value of ``velocity`` before ``counted``, the authorization being decided at ``now_ms``."""
        return self._windows[velocity, zone].observe(now_ms, counted)

    def apply(self, changes: Collection[Change]) -> None:
        """Follow the changes of a command; applying them twice has no further effect. A purchase that is in
        no window any more is ignored."""
        if self._meanwhile is not None:
            self._meanwhile += changes
        for change in changes:
            counted = self._known.get(change.key)
            if counted is not None and not counted.windows:
                del self._known[change.key]
                counted = None
            if counted is not None:
                self._update(counted, change)
            elif change.opened is not None:
                self._add(msgspec.structs.replace(change.opened, windows=0))

    def _add(self, counted: Counted) -> None:
        for window in self._windows.values():
            window.add(counted)
        if counted.windows:
            self._known[counted.key] = counted
            if len(self._known) > 2 * VELOCITY_EXACT_MAX * len(self._windows):
                self._known = {key: each for key, each in self._known.items() if each.windows}

    def _update(self, counted: Counted, change: Change) -> None:
        holding = [window for window in self._windows.values() if window.holds(counted)]
        for window in holding:
            window.subtract(counted, -1)
        counted.amount_minor, counted.count = change.amount_minor, change.count
        counted.declined = change.declined
        for window in holding:
            window.subtract(counted, 1)
