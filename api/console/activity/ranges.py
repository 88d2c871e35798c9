"""The time ranges of the charts, and the slots into which each is divided."""

from __future__ import annotations

from datetime import datetime
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from engine.limits import CONSOLE_KEPT_SLOT_SECONDS

HOUR_SECONDS: Final = 3_600
DAY_SECONDS: Final = 24 * HOUR_SECONDS


class TimeRange(NamedTuple):
    """A period that ends now."""

    name: str
    label: str
    seconds: int
    slot_seconds: int
    """Period of one point of the charts."""
    refresh_seconds: int
    """Interval at which an open page loads the figures again."""

    @property
    def from_tables(self) -> bool:
        """Whether the slots are too short for the kept ones."""
        return self.slot_seconds < CONSOLE_KEPT_SLOT_SECONDS


RANGES: Final[dict[str, TimeRange]] = {
    each.name: each
    for each in (
        TimeRange("5m", "5 minutes", 300, 5, 5),
        TimeRange("1h", "1 hour", HOUR_SECONDS, 60, 15),
        TimeRange("6h", "6 hours", 6 * HOUR_SECONDS, 300, 60),
        TimeRange("24h", "24 hours", DAY_SECONDS, 900, 60),
        TimeRange("7d", "7 days", 7 * DAY_SECONDS, 2 * HOUR_SECONDS, 300),
        TimeRange("30d", "30 days", 30 * DAY_SECONDS, 8 * HOUR_SECONDS, 300),
        TimeRange("90d", "90 days", 90 * DAY_SECONDS, DAY_SECONDS, 300),
    )
}
DEFAULT_RANGE: Final = RANGES["1h"]
LONGEST_SECONDS: Final = max(each.seconds for each in RANGES.values())

assert all(each.from_tables or each.slot_seconds % CONSOLE_KEPT_SLOT_SECONDS == 0 for each in RANGES.values())


class Window(NamedTuple):
    """The slots of a chart: the begin of the first, the end of the last (Unix seconds), and their length."""

    begin: int
    end: int
    slot_seconds: int

    @property
    def slots(self) -> range:
        """The begins of all slots."""
        return range(self.begin, self.end, self.slot_seconds)

    def slot_of(self, at: int) -> int:
        """The begin of the slot that contains ``at``."""
        return at - (at - self.begin) % self.slot_seconds


def window_of(range_: TimeRange, now_ms: int, zone: str) -> Window:
    """The slots of ``range_``; the last one contains the present. Slots begin at whole hours and days of
    ``zone``, as its clocks stand now."""
    now = now_ms // 1000
    offset = datetime.fromtimestamp(now, ZoneInfo(zone)).utcoffset()
    shift = int(offset.total_seconds()) if offset is not None else 0
    width = range_.slot_seconds
    end = (now + shift) // width * width - shift + width
    return Window(end - range_.seconds, end, width)
