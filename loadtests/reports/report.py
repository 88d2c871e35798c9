"""The report: Markdown tables that also read well in a terminal, and the same figures as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from loadtests.figures import Ratio, Slice, median_slice, ratio, share_background
from loadtests.harness.footprint import Footprint
from loadtests.harness.systems import BATCHES, OURS, ROW_LOCKS
from loadtests.reports.resources import at_rest, bytes_of
from loadtests.reports.targets import Target
from loadtests.reports.text import table

PARTS_SHOWN: Final = 9
STRANGERS_MAX: Final = 0.15
"""Share of the machine used by other processes, above which a run is unfit for final figures."""
COMPARED: Final = ("decisions_per_second", "server_cpu_us", "p99_ms")

TARGETS: Final = (
    Target("server CPU for each decision over ISO 8583, µs", "wire", "server_cpu_us", 250),
    Target("server CPU for each simulated spend over REST, µs", "rest", "server_cpu_us", 700),
    Target("decisions/s over ISO 8583", "wire", "decisions_per_second", 8_000, at_least=True),
    Target("the same ÷ row locks", "wire", "decisions_per_second", 3, at_least=True, over=ROW_LOCKS),
    Target(
        "decisions/s in stand-in on one programme ÷ row locks",
        "stand-in",
        "decisions_per_second",
        10,
        at_least=True,
        over=ROW_LOCKS,
    ),
    Target(
        "decisions/s ÷ PL/pgSQL batches", "router", "decisions_per_second", 1, at_least=True, over=BATCHES
    ),
    Target(
        "decisions/s in stand-in on one programme ÷ PL/pgSQL batches",
        "stand-in",
        "decisions_per_second",
        3,
        at_least=True,
        over=BATCHES,
    ),
    Target(
        "stand-in on one programme ÷ uniform cards",
        "stand-in",
        "decisions_per_second",
        0.8,
        at_least=True,
        shape=True,
    ),
    Target("p50 over ISO 8583 at 500/s, ms", "wire-open", "p50_ms", 4),
    Target("p99 over ISO 8583 at 500/s, ms", "wire-open", "p99_ms", 25),
)


class Proof(msgspec.Struct, frozen=True):
    """Approvals of one system that callers received, and approvals that its balances hold at the end."""

    system: str
    approved: int
    held: int


class BenchReport(msgspec.Struct, kw_only=True):
    """The results of one run of the benchmark."""

    machine: dict[str, Any]
    database: dict[str, str]
    fsync_ms: dict[str, float]
    plan: dict[str, Any]
    footprints: list[Footprint] = []
    """The installations before any load."""
    titles: dict[str, str]
    """Description of each workload, by name."""
    uniform: dict[str, str] = {}
    """For a workload's name, the name of the same load on uniform cards."""
    against: str = ""
    """The earlier commit that was measured, too; empty if none was."""
    not_compared: list[str] = []
    """Workloads that the earlier commit cannot run."""
    slices: list[Slice]
    proofs: list[Proof] = []
    failures: list[str] = []
    """Failures, one line each; all other figures were measured before them."""
    summary: dict[str, dict[str, Slice]] = {}
    """The medians, by workload and system."""
    ratios: dict[str, dict[str, dict[str, Ratio]]] = {}
    """Ours over the rival's, by workload, rival and figure."""
    shapes: dict[str, dict[str, Ratio]] = {}
    """Decisions a second over those on uniform cards, by workload and system."""

    def summarise(self) -> None:
        """Fill in ``summary``, ``ratios`` and ``shapes``."""
        self.slices = share_background(self.slices)
        of: dict[str, dict[str, list[Slice]]] = {}
        for each in self.slices:
            of.setdefault(each.workload, {}).setdefault(each.system, []).append(each)
        for workload in filter(of.__contains__, self.titles):
            systems = {OURS: of[workload].pop(OURS, [])} | of[workload]
            self.summary[workload] = {name: median_slice(found) for name, found in systems.items() if found}
            ours = systems.pop(OURS)
            if ours and systems:
                self.ratios[workload] = {name: _compared(ours, theirs) for name, theirs in systems.items()}
            of[workload] = {OURS: ours} | systems
        for workload, plain in self.uniform.items():
            self.shapes[workload] = {
                name: _kept(found, of[plain][name])
                for name, found in of.get(workload, {}).items()
                if found and of.get(plain, {}).get(name)
            }

    def json(self) -> bytes:
        """Everything, slices included."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    def text(self) -> str:
        """The report as Markdown, without the single slices."""
        parts = (
            self.header(),
            self._figures(),
            self._ratios(),
            self._shapes(),
            self._targets(),
            at_rest(self.footprints),
            bytes_of(self.summary),
            self._parts(),
        )
        return "\n\n".join((*filter(None, parts), ""))

    def header(self) -> str:
        """The conditions of the run."""
        facts = {
            **self.machine,
            "8 KiB write + fdatasync": f"p50 {self.fsync_ms['p50']} ms, p99 {self.fsync_ms['p99']} ms",
            "PostgreSQL": ", ".join(f"{name} {value}" for name, value in self.database.items()),
            "plan": ", ".join(f"{name} {_plain(value)}" for name, value in self.plan.items()),
            "proof, approvals answered and held": "; ".join(
                f"{each.system} {each.approved:,} and {each.held:,}" for each in self.proofs
            ),
            "strangers": self._strangers(),
        }
        if self.failures:
            facts["FAILED"] = "; ".join(self.failures)
        if self.against:
            facts["compared with"] = self.against
        if self.not_compared:
            facts["not compared, because they run inside the process"] = ", ".join(self.not_compared)
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
        rows = []
        for workload, rivals in self.ratios.items():
            for rival, found in rivals.items():
                title = workload if rival == next(iter(rivals)) else ""
                rows.append((title, rival, *(shown(found[name]) for name in COMPARED)))
        head = (f"{OURS} ÷", "rival: median (lowest–highest)", "decisions/s", "server CPU each", "p99")
        return table(head, rows) if rows else ""

    def _shapes(self) -> str:
        """The share of its uniform throughput that each system keeps under a skewed load."""
        systems = list(dict.fromkeys(name for found in self.shapes.values() for name in found))
        rows = [
            (workload, *(shown(found[name]) if name in found else "" for name in systems))
            for workload, found in self.shapes.items()
            if found
        ]
        return table(("decisions/s ÷ uniform cards", *systems), rows) if rows else ""

    def _targets(self) -> str:
        rows = []
        for target in TARGETS:
            found = self._found(target)
            if found is not None:
                verdict = "reached" if target.reached(found) else f"×{target.factor(found):.2f} away"
                sign = "≥" if target.at_least else "≤"
                rows.append((target.title, f"{sign} {target.value:g}", f"{found:.4g}", verdict))
        return table(("target on two cores", "", "found", ""), rows) if rows else ""

    def _found(self, target: Target) -> float | None:
        """The figure of ``target``, if the run has measured it."""
        if target.shape:
            kept = self.shapes.get(target.workload, {}).get(OURS)
            return None if kept is None else kept.median
        if target.over is not None:
            ratios = self.ratios.get(target.workload, {}).get(target.over)
            return None if ratios is None else ratios[target.figure].median
        ours = self.summary.get(target.workload, {}).get(OURS)
        return None if ours is None else float(getattr(ours, target.figure))

    def _parts(self) -> str:
        rows = []
        for workload, systems in self.summary.items():
            for system, found in systems.items():
                largest = sorted(found.server_parts_us.items(), key=lambda part: -part[1])
                parts = ", ".join(f"{part} {used:.0f}" for part, used in largest[:PARTS_SHOWN] if used >= 0.5)
                rows.append((f"{workload}, {system}", f"{found.server_cpu_us:.0f}", parts))
        return table(("server CPU for each decision", "µs", "of which, in µs"), rows)


_FIGURES: Final = (
    "workload",
    "system",
    "decisions/s",
    "p50 ms",
    "p99 ms",
    "server CPU µs",
    "generator CPU µs",
    "SQL round trips",
    "calls between processes",
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
        "included" if found.counts_as_server else f"{found.generator_cpu_us:.0f}",
        _few(found.sql_round_trips),
        _few(found.process_calls),
        f"{found.machine_busy:.0%} ({found.strangers_busy:.0%})",
        f"{found.refused}, {found.lost}",
    )


def _compared(ours: Sequence[Slice], theirs: Sequence[Slice]) -> dict[str, Ratio]:
    return {
        name: ratio(*([getattr(each, name) for each in slices] for slices in (ours, theirs)))
        for name in COMPARED
    }


def _kept(shaped: Sequence[Slice], plain: Sequence[Slice]) -> Ratio:
    # An interrupted run may have measured one of them once more.
    rounds = min(len(shaped), len(plain))
    return ratio(_rates(shaped[:rounds]), _rates(plain[:rounds]))


def _rates(slices: Iterable[Slice]) -> list[float]:
    return [each.decisions_per_second for each in slices]


def _few(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}" if value < 10 else f"{value:.0f}"


def shown(found: Ratio) -> str:
    """A ratio with its range."""
    return f"{found.median:.2f} ({found.low:.2f}–{found.high:.2f})"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
