"""The report of ``loadtests.growth``: points, tables, lines."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from loadtests.figures import Slice
from loadtests.reports.page import document, markdown
from loadtests.reports.plots import lines
from loadtests.reports.text import measured_on, table

COST_TARGET: Final = 1.15
"""Allowed cost of a decision at the largest size, relative to the cost at the smallest."""
JUDGED: Final = ("cards", "holds")
"""The series with this target."""
BYTES_TARGET: Final = 2_048
"""Memory of one active card."""


class Point(msgspec.Struct, frozen=True):
    """The measurement at one size. ``value`` is in the unit of its series, or the server CPU of a decision in
    microseconds."""

    size: int
    value: float
    decisions_per_second: float | None = None
    p50_ms: float | None = None
    p99_ms: float | None = None
    parts_us: dict[str, float] = {}
    strangers_busy: float | None = None

    @staticmethod
    def of(size: int, found: Slice) -> Point:
        """The figures of a slice."""
        return Point(
            size,
            found.server_cpu_us,
            found.decisions_per_second,
            found.p50_ms,
            found.p99_ms,
            found.server_parts_us,
            found.strangers_busy,
        )

    def shown(self) -> str:
        """One line for the progress output."""
        return f"{self.decisions_per_second or 0:,.0f}/s, {self.value:.0f} µs server CPU each"


class Series(msgspec.Struct, frozen=True):
    """Points over one size that grows."""

    name: str
    what_grows: str
    points: list[Point]
    unit: str = ""
    """The unit of the values; empty for decisions."""

    @property
    def growth(self) -> float | None:
        """The last value over the first one."""
        values = [point.value for point in self.points]
        return values[-1] / values[0] if len(values) > 1 and values[0] > 0 else None


class Grown(msgspec.Struct, kw_only=True):
    """The results of one run."""

    machine: dict[str, Any]
    fsync_ms: dict[str, float]
    seconds: float
    series: list[Series] = []
    bytes_per_active_card: dict[str, float] = {}
    """Values by the number of cards."""
    failures: list[str] = []
    """Failures, one line each; all other figures were measured before them."""

    def json(self) -> bytes:
        """Everything."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def text(self) -> str:
        """The report as Markdown, without the parts of the server CPU."""
        blocks = [self._header(), *(_decisions(each) for each in self.series if not each.unit)]
        plain = [each for each in self.series if each.unit]
        if plain:
            blocks.append(_beside(plain))
        if self.series:
            blocks.append(self._verdicts())
        return "\n\n".join((*blocks, ""))

    def sections(self) -> dict[str, str]:
        """Each series of decisions as a section of a document, ``growth-NAME``: its points and its growth."""
        measured = [each for each in self.series if not each.unit]
        return {
            f"growth-{each.name}": "\n\n".join(
                (measured_on(), _decisions(each), table(_VERDICTS, _verdict(each)))
            )
            for each in measured
        }

    def page(self) -> str:
        """The report as an HTML page with a line plot for each series."""
        parts = []
        for each in self.series:
            unit = each.unit or "µs of server CPU for each decision"
            drawn = {each.name: [(float(point.size), point.value) for point in each.points]}
            parts.append(f"<h2>{each.name}</h2>{lines(drawn, each.what_grows, unit)}")
        return document("Stanchion: how cost grows", [*parts, "<h2>Figures</h2>", markdown(self.text())])

    def _header(self) -> str:
        facts = {
            **self.machine,
            "8 KiB write + fdatasync": f"p50 {self.fsync_ms['p50']} ms, p99 {self.fsync_ms['p99']} ms",
            "seconds of each point": self.seconds,
        }
        if self.failures:
            facts["FAILED"] = "; ".join(self.failures)
        return "\n".join(f"- {name}: {value}" for name, value in facts.items())

    def _verdicts(self) -> str:
        rows = [row for each in self.series for row in _verdict(each)]
        for size, found in self.bytes_per_active_card.items():
            reached = "reached" if found <= BYTES_TARGET else "missed"
            about = f"bytes of memory for each active card, of {int(size):,}"
            rows.append((about, f"≤ {BYTES_TARGET:,}", f"{found:,.0f}", reached))
        return table(_VERDICTS, rows)


_VERDICTS: Final = ("growth", "target", "found", "")


def _verdict(series: Series) -> list[tuple[str, str, str, str]]:
    """The growth of a series of decisions, if it has more than one point."""
    if series.growth is None or series.unit:
        return []
    target = f"≤ {COST_TARGET:g}" if series.name in JUDGED else ""
    reached = "" if not target else "reached" if series.growth <= COST_TARGET else "missed"
    last, first = series.points[-1].size, series.points[0].size
    return [(f"{series.name}: cost at {last:,} ÷ at {first:,}", target, f"{series.growth:.2f}", reached)]


def _decisions(series: Series) -> str:
    rows = [
        (
            f"{point.size:,}",
            f"{point.decisions_per_second or 0:,.0f}",
            f"{point.p50_ms or 0:.1f}",
            f"{point.p99_ms or 0:.1f}",
            f"{point.value:.0f}",
            f"{point.parts_us.get('hosts', 0):.0f}",
            f"{point.parts_us.get('postgres backends', 0):.0f}",
            f"{point.strangers_busy or 0:.0%}",
        )
        for point in series.points
    ]
    costs = ("server CPU µs", "hosts", "PostgreSQL")
    return table((series.what_grows, "decisions/s", "p50 ms", "p99 ms", *costs, "strangers"), rows)


def _beside(series: list[Series]) -> str:
    """One table for series over the same sizes."""
    sizes = sorted({point.size for each in series for point in each.points})
    found = [{point.size: f"{point.value:,.1f}" for point in each.points} for each in series]
    rows = [(f"{size:,}", *(values.get(size, "") for values in found)) for size in sizes]
    return table((series[0].what_grows, *(each.unit for each in series)), rows)
