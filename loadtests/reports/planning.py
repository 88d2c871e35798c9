"""Figures to plan with, from one run: where rivals are ahead, the capacity of a machine, the cost of a rate,
decisions beside back-tests.

Processor time between the measured rates has a bound: as the rate rises, the cost of one decision only falls
(group commits grow) and the sum of all costs only rises. So below saturation a decision costs at most as much
as at the paced rate, and all decisions together at most as much as at saturation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from loadtests.figures import Slice
from loadtests.harness.systems import OURS, RIVALS
from loadtests.reports.report import BenchReport, shown
from loadtests.reports.resources import each_decision, total
from loadtests.reports.text import table

BUSY: Final = "wire"
PACED: Final = "wire-open"
PACED_PER_SECOND: Final = 500.0
BESIDE: Final = "backtest"
BESIDE_P99_MS_MAX: Final = 25.0
"""Target for decisions at the paced rate beside back-tests."""
SHOWN: Final = ("wire", "wire-open", "life", "rest", "rest-few", "rest-open")
RATES: Final = (1, 100, 5_000)
FREE_SHARE: Final = 0.5
"""Share of the provided cores that stays free: p99 follows from it."""
CORES_MIN: Final = 2.0
MONTH_SECONDS: Final = 30.44 * 86_400
CORE_MONTH: Final = 25.0
"""Assumed price of a core for a month."""
GIGABYTE_MONTH: Final = 0.10
"""Assumed price of a gigabyte on disk for a month, in the same currency."""
MONTHS_KEPT: Final = 12
"""Assumed time for which the rows of a decision are kept."""
GIGABYTE: Final = 1e9
PART_US_MIN: Final = 5.0
"""Parts that use less for each decision limit nothing."""


class Inputs(msgspec.Struct, frozen=True, kw_only=True):
    """The measured inputs of the cost of a rate."""

    idle_cores: float
    """Cores that an installation uses without load."""
    paced_per_second: float
    paced_cpu_us: float
    """Server CPU of a decision at the paced rate, idle work included."""
    busy_per_second: float
    busy_cpu_us: float
    """Server CPU of a decision at saturation, idle work included."""
    paced_log_bytes: float
    busy_log_bytes: float
    kept_bytes: float
    """Rows and indexes of a decision."""

    def cores_used(self, per_second: float) -> float:
        """An upper bound on the cores that ``per_second`` decisions use."""
        each = self.paced_cpu_us / 1e6 - self.idle_cores / self.paced_per_second
        return self._bound(per_second, each, self.busy_cpu_us / 1e6, self.idle_cores)

    def log_bytes_a_second(self, per_second: float) -> float:
        """An upper bound on the log that ``per_second`` decisions write in a second."""
        return self._bound(per_second, self.paced_log_bytes, self.busy_log_bytes)

    def _bound(self, per_second: float, paced: float, busy: float, idle: float = 0.0) -> float:
        """The bound at the head of this module, from the amounts for each decision at both measured rates."""
        saturated = self.busy_per_second * busy
        return max(min(idle + per_second * paced, saturated), per_second * busy)

    def cores_provided(self, per_second: float) -> float:
        """The cores to provide, so that ``FREE_SHARE`` of them stays free."""
        return max(CORES_MIN, self.cores_used(per_second) / (1 - FREE_SHARE))

    def gigabytes_a_month(self, per_second: float) -> float:
        """Rows and indexes that a month adds."""
        return per_second * MONTH_SECONDS * self.kept_bytes / GIGABYTE

    def money_a_month(self, per_second: float) -> float:
        """The cores of a month, and the disk for the decisions of ``MONTHS_KEPT`` months."""
        disk = self.gigabytes_a_month(per_second) * MONTHS_KEPT * GIGABYTE_MONTH
        return self.cores_provided(per_second) * CORE_MONTH + disk


def planning(report: BenchReport) -> dict[str, str]:
    """The sections by the name of their marks; a section is empty if the run has not measured it."""
    inputs = inputs_of(report)
    sections = {"ahead": ahead(report), "capacity": capacity(report), "beside": beside(report)}
    sections["cost"] = "" if inputs is None else cost(inputs)
    about = {name: report.machine.get(name, "") for name in ("day", "cpu", "python")}
    origin = f"Measured on {about['day']}: {about['cpu']}; Python {about['python']}."
    return {name: text and f"{origin}\n\n{text}" for name, text in sections.items()}


def inputs_of(report: BenchReport) -> Inputs | None:
    """The inputs of the cost; ``None`` unless the run has measured all of them."""
    busy, paced = (report.summary.get(name, {}).get(OURS) for name in (BUSY, PACED))
    footprint = next((each for each in report.footprints if each.system == OURS), None)
    if busy is None or paced is None or footprint is None or busy.wal_bytes is None or not busy.tables:
        return None
    return Inputs(
        idle_cores=sum(footprint.idle_cpu.values()),
        paced_per_second=PACED_PER_SECOND,
        paced_cpu_us=paced.server_cpu_us,
        busy_per_second=busy.decisions_per_second,
        busy_cpu_us=busy.server_cpu_us,
        paced_log_bytes=paced.wal_bytes or busy.wal_bytes,
        busy_log_bytes=busy.wal_bytes,
        kept_bytes=_kept(busy),
    )


def cost(inputs: Inputs) -> str:
    """The inputs, and the cost of each of ``RATES``."""
    measured = (
        f"idle: {inputs.idle_cores:.3f} cores",
        f"at {inputs.paced_per_second:,.0f}/s: {inputs.paced_cpu_us:,.0f} µs of server CPU for each decision",
        f"at saturation ({inputs.busy_per_second:,.0f}/s): {inputs.busy_cpu_us:,.0f} µs",
        f"log of a decision at these two rates: {inputs.paced_log_bytes:,.0f} and"
        f" {inputs.busy_log_bytes:,.0f} bytes; its rows and indexes: {inputs.kept_bytes:,.0f} bytes",
        f"assumed: a core costs {CORE_MONTH:g} a month, a gigabyte {GIGABYTE_MONTH:.2f} a month, and rows are"
        f" kept for {MONTHS_KEPT} months",
    )
    rows = [_cost_row(inputs, rate) for rate in RATES]
    lines = "\n".join(f"- {line}" for line in measured)
    return f"{lines}\n\n{table(_COST, rows)}"


_COST: Final = (
    "decisions/s",
    "cores used, at most",
    "cores to provide",
    "log MB/s, at most",
    "rows + indexes, GB a month",
    "money a month",
    "money for a million decisions",
)


def _cost_row(inputs: Inputs, rate: float) -> tuple[str, ...]:
    money = inputs.money_a_month(rate)
    return (
        f"{rate:,}",
        f"{inputs.cores_used(rate):.2f}",
        f"{inputs.cores_provided(rate):.1f}",
        f"{inputs.log_bytes_a_second(rate) / 1e6:,.2g}",
        f"{inputs.gigabytes_a_month(rate):,.0f}",
        f"{money:,.0f}",
        f"{money / (rate * MONTH_SECONDS) * 1e6:,.2f}",
    )


def capacity(report: BenchReport) -> str:
    """Each workload's rate, cost and bytes; and the rate at which one process of each part is full. Empty for
    a run of some other workloads."""
    if BUSY not in report.summary:
        return ""
    rows = [
        (report.titles[name], *_capacity_of(report.summary[name][OURS]))
        for name in SHOWN
        if OURS in report.summary.get(name, {})
    ]
    head = ("workload", "decisions/s", "decisions/s of a whole core", "server CPU µs", "p50, p99 ms")
    parts = _limits(report.summary.get(BUSY, {}).get(OURS))
    rates = table((*head, "log bytes", "row + index bytes"), rows) if rows else ""
    return "\n\n".join(filter(None, (rates, parts)))


def _capacity_of(found: Slice) -> tuple[str, ...]:
    return (
        f"{found.decisions_per_second:,.0f}",
        f"{1e6 / found.server_cpu_us:,.0f}",
        f"{found.server_cpu_us:,.0f}",
        f"{found.p50_ms:.1f}, {found.p99_ms:.1f}",
        "" if found.wal_bytes is None else f"{found.wal_bytes:,.0f}",
        f"{_kept(found):,.0f}" if found.tables else "",
    )


def _limits(found: Slice | None) -> str:
    parts: Mapping[str, float] = {} if found is None else found.server_parts_us
    rows = [
        (part, f"{used:,.0f}", f"{1e6 / used:,.0f}")
        for part, used in sorted(parts.items(), key=lambda item: -item[1])
        if used >= PART_US_MIN
    ]
    head = ("part, over ISO 8583", "µs for each decision", "decisions/s that fill one core")
    return table(head, rows) if rows else ""


def beside(report: BenchReport) -> str:
    """Decisions at the paced rate alone and beside back-tests. Empty unless both were measured."""
    alone, busy = (report.summary.get(name, {}).get(OURS) for name in (PACED, BESIDE))
    if alone is None or busy is None:
        return ""
    rows = [
        (report.titles[name], f"{each.decisions_per_second:,.0f}", f"{each.p50_ms:.1f}", f"{each.p99_ms:.1f}")
        for name, each in ((PACED, alone), (BESIDE, busy))
    ]
    reached = "reached" if busy.p99_ms <= BESIDE_P99_MS_MAX else "missed"
    target = f"- target: p99 ≤ {BESIDE_P99_MS_MAX:g} ms beside back-tests, {reached}"
    return f"{table(('workload', 'decisions/s', 'p50 ms', 'p99 ms'), rows)}\n\n{target}"


def ahead(report: BenchReport) -> str:
    """The workloads in which a rival decides more in a second or needs less processor time; the largest
    distance first."""
    rows = [
        (found["decisions_per_second"].median, (name, rival, *(shown(found[each]) for each in _AHEAD_BY)))
        for name, rivals in report.ratios.items()
        for rival, found in rivals.items()
        if rival in RIVALS and (found["decisions_per_second"].median < 1 or found["server_cpu_us"].median > 1)
    ]
    head = ("workload", "rival", "decisions/s, ours ÷ rival", "server CPU each, ours ÷ rival")
    return table(head, [row for _, row in sorted(rows)]) if rows else ""


_AHEAD_BY: Final = ("decisions_per_second", "server_cpu_us")


def _kept(found: Slice) -> float:
    grown = total(found)
    return each_decision(grown.row_bytes + grown.index_bytes, found)
