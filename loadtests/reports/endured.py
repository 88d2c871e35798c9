"""An hour of load in periods: the figures, their verdict, and the table."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from itertools import chain
from statistics import fmean
from typing import Any, Final

import msgspec

from loadtests.figures import percentile

P99_MS_MAX: Final = 100.0
GROWTH_MAX: Final = 1.10
"""The most memory of the last quarter, as a multiple of the second quarter: caches fill in the first."""
LAG_MS_MIN: Final = 5.0
"""Mean delays below this may grow."""
VISANET_PER_SECOND: Final = 8_165
"""Average number of transactions a second over VisaNet in 2025."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """One part of the run."""

    seconds: float
    lives: int
    """First authorizations that were approved."""
    waits_ms: array[float]
    """The time to each answer."""
    refused: int
    server_cpu_seconds: float
    strangers_busy: float
    """Share of the machine that went to neither the installation nor the generator."""
    heap_bytes: int
    """Anonymous memory of all processes of the installation at the end."""
    lag_ms: float
    """Mean delay of timers in the event loops of all processes."""
    data_bytes: int
    """Rows and indexes of all tables at the end."""


class Endured(msgspec.Struct, kw_only=True):
    """A whole run."""

    machine: dict[str, Any]
    fsync_ms: dict[str, float]
    in_flight: int
    periods: list[Period]
    refused_outside: int
    """Messages refused before the first and after the last period."""
    lost: int
    rows_missing: int
    """Answered messages minus the rows that the journal gained; more rows than answers count as zero."""

    @property
    def messages(self) -> int:
        """Answers in all."""
        return sum(len(each.waits_ms) for each in self.periods)

    @property
    def refused(self) -> int:
        """Messages refused in all."""
        return self.refused_outside + sum(each.refused for each in self.periods)

    @property
    def seconds(self) -> float:
        return sum(each.seconds for each in self.periods)

    @property
    def p99_ms(self) -> float:
        """Of all answers."""
        return percentile(list(chain.from_iterable(each.waits_ms for each in self.periods)), 0.99)

    @property
    def broken(self) -> list[str]:
        """The targets that the run misses."""
        heap, lag = self.growth("heap_bytes"), self.growth("lag_ms")
        late = self.quarter("lag_ms", 3) > LAG_MS_MIN
        checks = (
            (bool(self.refused or self.lost), f"{self.refused} messages were refused and {self.lost} lost"),
            (self.rows_missing > 0, f"the journal lacks {self.rows_missing} rows"),
            (not self.p99_ms <= P99_MS_MAX, f"p99 is {self.p99_ms:.0f} ms, more than {P99_MS_MAX:.0f}"),
            (not heap <= GROWTH_MAX, f"memory grew to {heap:.2f} of the second quarter's"),
            (late and not lag <= GROWTH_MAX, f"the lag of timers grew to {lag:.2f} of the second quarter's"),
        )
        return [text for missed, text in checks if missed]

    def quarter(self, name: str, number: int) -> float:
        """The mean of a figure over one quarter of the periods (0–3); NaN with fewer than four periods."""
        length = len(self.periods) // 4
        part = self.periods[number * length : (number + 1) * length]
        return fmean(getattr(each, name) for each in part) if part else math.nan

    def growth(self, name: str) -> float:
        """A figure of the last quarter divided by that of the second; 1 with fewer than four periods."""
        if len(self.periods) < 4:
            return 1.0
        return self.quarter(name, 3) / max(self.quarter(name, 1), 1e-9)

    def text(self) -> str:
        """The run as Markdown."""
        lives, minutes = sum(each.lives for each in self.periods), self.seconds / 60
        per_second, sales = self.messages / self.seconds, lives / self.seconds
        lines = [
            f"Measured on {self.machine['day']}: {self.machine['cpu']}; Python {self.machine['python']}; "
            f"a sync takes {self.fsync_ms['p50']} ms, one of a hundred {self.fsync_ms['p99']} ms. "
            f"{self.in_flight} lives at a time.",
            "",
            *_table(self.periods),
            "",
            f"- {self.messages:,} messages of {lives:,} approved sales in {minutes:.0f} minutes: "
            f"{per_second:,.0f} and {sales:,.0f} a second, {per_second / VISANET_PER_SECOND:.2f} and "
            f"{sales / VISANET_PER_SECOND:.2f} of VisaNet's average of 2025 ({VISANET_PER_SECOND:,})",
            f"- p99 of all answers {self.p99_ms:.1f} ms; {self.refused} refused, {self.lost} lost; the "
            f"journal lacks {self.rows_missing} rows",
            f"- last quarter ÷ second quarter: memory {self.growth('heap_bytes'):.3f}, lag "
            f"{self.growth('lag_ms'):.2f}",
        ]
        return "\n".join([*lines, *(f"- missed: {each}" for each in self.broken)])


_HEAD: Final = (
    "minute",
    "messages/s",
    "sales/s",
    "p50, p99, slowest ms",
    "server CPU µs",
    "strangers",
    "heap MB",
    "lag ms",
    "rows + indexes GB",
)


def _table(periods: Sequence[Period]) -> list[str]:
    lines = [f"| {' | '.join(_HEAD)} |", "|---" * len(_HEAD) + "|"]
    minute = 0.0
    for each in periods:
        minute += each.seconds / 60
        waits = sorted(each.waits_ms)
        p50, p99 = (percentile(waits, share) for share in (0.5, 0.99))
        cells = (
            f"{minute:.0f}",
            f"{len(waits) / each.seconds:,.0f}",
            f"{each.lives / each.seconds:,.0f}",
            f"{p50:.1f}, {p99:.1f}, {max(waits, default=math.nan):.0f}",
            f"{each.server_cpu_seconds / max(1, len(waits)) * 1e6:.0f}",
            f"{each.strangers_busy:.0%}",
            f"{each.heap_bytes / 1e6:.0f}",
            f"{each.lag_ms:.1f}",
            f"{each.data_bytes / 1e9:.1f}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines
