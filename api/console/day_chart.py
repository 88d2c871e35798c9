"""Bar charts of days, drawn by the server as SVG: one bar for each day, its series stacked.

Lengths are units of the drawing, which the page scales to its width. Days without figures have no bar.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import Final, NamedTuple

WIDTH: Final = 1000
HEIGHT: Final = 160
DAYS_MIN: Final = 7
"""Days that a chart has at least, so that a single bar is no wall."""


class Bar(NamedTuple):
    """A rectangle of one day and one series."""

    series: str
    x: float
    y: float
    width: float
    height: float
    title: str


class DayChart(NamedTuple):
    """The bars of all days, and the labels of the axes."""

    bars: tuple[Bar, ...]
    first_day: str
    last_day: str
    highest: int
    """The largest sum of a day, which has the chart's whole height."""


def day_chart(
    figures: Sequence[Mapping[str, object]], counts: Mapping[str, Sequence[int]]
) -> DayChart | None:
    """The chart of ``figures``, which have a ``day`` each (``YYYY-MM-DD``, ascending). ``counts`` has the
    numbers of each series for the same days, the lowest series first. ``None`` if all numbers are 0."""
    days = [date.fromisoformat(str(each["day"])) for each in figures]
    totals = [sum(numbers) for numbers in zip(*counts.values(), strict=True)]
    if not any(totals):
        return None
    length = max(DAYS_MIN, (days[-1] - days[0]).days + 1)
    first = days[-1] - timedelta(days=length - 1)
    slot, highest = WIDTH / length, max(totals)
    bars = []
    for place, day in enumerate(days):
        top = float(HEIGHT)
        for series, numbers in counts.items():
            height = HEIGHT * numbers[place] / highest
            top -= height
            if height:
                title = f"{day}: {numbers[place]} {series.replace('_', ' ')}"
                x = (day - first).days * slot + slot * 0.1
                bars.append(
                    Bar(series, round(x, 1), round(top, 1), round(slot * 0.8, 1), round(height, 1), title)
                )
    return DayChart(tuple(bars), first.isoformat(), days[-1].isoformat(), highest)
