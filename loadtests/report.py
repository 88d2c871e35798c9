"""The report: Markdown tables that also read well in a terminal, and the same figures as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from loadtests.figures import Ratio, Slice, median_slice, ratio
from loadtests.slices import OURS, RIVAL

PARTS_SHOWN: Final = 9
STRANGERS_MAX: Final = 0.15
"""Share of the machine above which somebody else was measured, too."""


class Target(msgspec.Struct, frozen=True):
    """What the design has set out to reach. ``figure`` of ``workload``, ours, or ours over the rival's."""

    title: str
    workload: str
    figure: str
    value: float
    at_least: bool = False
    relative: bool = False

    def found(self, report: Report) -> float | None:
        """The figure, if the run has measured it."""
        if self.relative:
            ratios = report.ratios.get(self.workload)
            return ratios[self.figure].median if ratios else None
        systems = report.summary.get(self.workload)
        return float(getattr(systems[OURS], self.figure)) if systems else None

    def reached(self, found: float) -> bool:
        """Whether ``found`` is as good as the target."""
        return found >= self.value if self.at_least else found <= self.value

    def factor(self, found: float) -> float:
        """How many times better it would have to be."""
        return self.value / found if self.at_least else found / self.value


TARGETS: Final = (
    Target("server CPU for each decision over ISO 8583, µs", "wire", "server_cpu_us", 250),
    Target("server CPU for each simulated spend over REST, µs", "rest", "server_cpu_us", 700),
    Target("decisions/s over ISO 8583", "wire", "decisions_per_second", 8_000, at_least=True),
    Target(
        "the same ÷ row locks, uniform cards", "wire", "decisions_per_second", 3, at_least=True, relative=True
    ),
    Target("p50 over ISO 8583 at 500/s, ms", "wire-open", "p50_ms", 4),
    Target("p99 over ISO 8583 at 500/s, ms", "wire-open", "p99_ms", 25),
)


class Report(msgspec.Struct, kw_only=True):
    """All that one run of the benchmark has found out."""

    machine: dict[str, Any]
    database: dict[str, str]
    fsync_ms: dict[str, float]
    plan: dict[str, Any]
    idle_cpu: dict[str, float]
    """Share of one core by part, before any load."""
    titles: dict[str, str]
    """What each workload is, by name."""
    slices: list[Slice]
    approved: int = 0
    """Approvals that callers were told of, over the whole run."""
    held: int = 0
    """Approvals that the balances hold at the end."""
    summary: dict[str, dict[str, Slice]] = {}
    """The medians, by workload and system."""
    ratios: dict[str, dict[str, Ratio]] = {}
    """Ours over the rival's, by workload and figure."""

    def summarise(self) -> None:
        """Fill in ``summary`` and ``ratios``."""
        for workload in self.titles:
            of = {
                system: [each for each in self.slices if (each.workload, each.system) == (workload, system)]
                for system in (OURS, RIVAL)
            }
            found = {system: median_slice(slices) for system, slices in of.items() if slices}
            if found:
                self.summary[workload] = found
            if of[OURS] and of[RIVAL]:
                self.ratios[workload] = {
                    name: ratio(*([getattr(each, name) for each in of[system]] for system in (OURS, RIVAL)))
                    for name in ("decisions_per_second", "server_cpu_us", "p99_ms")
                }

    def json(self) -> bytes:
        """Everything, slices included."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def text(self) -> str:
        """Everything but the single slices."""
        parts = (self._header(), self._figures(), self._ratios(), self._targets(), self._parts())
        return "\n\n".join((*parts, ""))

    def _header(self) -> str:
        idle = sum(self.idle_cpu.values())
        facts = {
            **self.machine,
            "8 KiB write + fdatasync": f"p50 {self.fsync_ms['p50']} ms, p99 {self.fsync_ms['p99']} ms",
            "PostgreSQL": ", ".join(f"{name} {value}" for name, value in self.database.items()),
            "plan": ", ".join(f"{name} {value}" for name, value in self.plan.items()),
            "proof": f"{self.approved:,} approvals answered, {self.held:,} held in the cards' balances",
            "strangers": self._strangers(),
            "idle installation": f"{idle:.1%} of one core ({_shares(self.idle_cpu)})",
        }
        return "\n".join(f"- {name}: {value}" for name, value in facts.items())

    def _strangers(self) -> str:
        busy = statistics.median(each.strangers_busy for each in self.slices) if self.slices else 0.0
        verdict = "; too much for final figures" if busy > STRANGERS_MAX else ""
        return f"others (kernel threads among them) used {busy:.0%} of the machine{verdict}"

    def _figures(self) -> str:
        rows = []
        for workload, systems in self.summary.items():
            for system, found in systems.items():
                title = self.titles[workload] if system == next(iter(systems)) else ""
                rows.append((title, system, *_figures_of(found)))
        return table(_FIGURES, rows)

    def _ratios(self) -> str:
        rows = [
            (self.titles[workload], *(_ratio(found[name]) for name in found))
            for workload, found in self.ratios.items()
        ]
        head = (f"{OURS} ÷ {RIVAL}: median (lowest–highest)", "decisions/s", "server CPU each", "p99")
        return table(head, rows)

    def _targets(self) -> str:
        rows = []
        for target in TARGETS:
            found = target.found(self)
            if found is not None:
                verdict = "reached" if target.reached(found) else f"×{target.factor(found):.2f} away"
                sign = "≥" if target.at_least else "≤"
                rows.append((target.title, f"{sign} {target.value:g}", f"{found:.4g}", verdict))
        return table(("target on two cores", "", "found", ""), rows)

    def _parts(self) -> str:
        rows = []
        for workload, systems in self.summary.items():
            for system, found in systems.items():
                largest = sorted(found.server_parts_us.items(), key=lambda part: -part[1])
                shown = ", ".join(f"{part} {used:.0f}" for part, used in largest[:PARTS_SHOWN] if used >= 0.5)
                rows.append((f"{workload}, {system}", f"{found.server_cpu_us:.0f}", shown))
        return table(("server CPU for each decision", "µs", "of which, in µs"), rows)


_FIGURES: Final = (
    "workload",
    "system",
    "decisions/s",
    "p50 ms",
    "p99 ms",
    "server CPU µs",
    "generator CPU µs",
    "decisions/commit",
    "WAL bytes",
    "machine busy (strangers)",
    "refused, lost",
)


def _figures_of(found: Slice) -> tuple[str, ...]:
    late = "" if found.lateness_p99_ms is None else f" (sent ≤ {found.lateness_p99_ms:.1f} late)"
    return (
        f"{found.decisions_per_second:,.0f}",
        f"{found.p50_ms:.1f}",
        f"{found.p99_ms:.1f}{late}",
        f"{found.server_cpu_us:.0f}",
        f"{found.generator_cpu_us:.0f}",
        "1" if found.decisions_per_commit is None else f"{found.decisions_per_commit:.1f}",
        "" if found.wal_bytes is None else f"{found.wal_bytes:,.0f}",
        f"{found.machine_busy:.0%} ({found.strangers_busy:.0%})",
        f"{found.refused}, {found.lost}",
    )


def _ratio(found: Ratio) -> str:
    return f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def _shares(parts: Mapping[str, float]) -> str:
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{part} {share:.1%}" for part, share in largest if share >= 0.001)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    drawn = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join((f"| {drawn[0]} |", f"|{rule}|", *(f"| {line} |" for line in drawn[1:])))
