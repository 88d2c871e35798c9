"""The table: each promise, how often it was tried, the worst figure, and the verdict."""

from __future__ import annotations

from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from ops.audit import Finding
from ops.chaos.faults import Fault, Outcome


@dataclass
class Row:
    """What a fault has shown so far."""

    fault: Fault
    figures: list[float] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """A fault that was never injected has shown nothing."""
        if self.broken:
            return f"BROKEN {len(self.broken)}×: {self.broken[0]}"
        return "held" if self.figures else "NOT SHOWN"


class Report:
    """Everything that was tried."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._rows: dict[str, Row] = {}
        self._findings: list[Finding] = []
        self.operations = 0

    def injected(self, fault: Fault, outcome: Outcome) -> None:
        """One round of a fault."""
        row = self._row(fault)
        row.figures.append(outcome.figure)
        row.broken += outcome.broken
        if fault.limit is not None and outcome.figure > fault.limit:
            row.broken.append(f"{outcome.figure:.0f} is more than {fault.limit:.0f}")

    def not_injected(self, fault: Fault, reason: str) -> None:
        """A round that shows nothing."""
        self._row(fault).broken.append(f"not injected: {reason}")

    def failed(self, fault: Fault, reason: str) -> None:
        """A round after which the installation was not itself again."""
        self._row(fault).broken.append(reason)

    def found(self, finding: Finding) -> None:
        """A check over the whole run."""
        self._findings.append(finding)

    @property
    def passed(self) -> bool:
        """Whether everything held, and everything was tried."""
        rows = all(row.verdict == "held" for row in self._rows.values())
        return rows and bool(self._rows) and not any(finding.broken for finding in self._findings)

    def show(self) -> None:
        """Print it."""
        console = Console(width=150)
        table = Table(title=f"chaos, seed {self._seed}, {self.operations:,} operations in the history")
        for title in ("promise", "fault", "rounds", "median", "worst", "unit", "verdict"):
            table.add_column(title)
        for row in self._rows.values():
            figures = sorted(row.figures)
            shown = [f"{figures[len(figures) // 2]:.2f}", f"{figures[-1]:.2f}"] if figures else ["–", "–"]
            fault = row.fault
            table.add_row(fault.promise, fault.name, str(len(figures)), *shown, fault.unit, row.verdict)
        console.print(table)
        checks = Table(title="checks over the whole run")
        for title in ("check", "subjects", "broken", "verdict"):
            checks.add_column(title)
        for finding in self._findings:
            verdict = "held" if finding.subjects and not finding.broken else "no subjects"
            verdict = f"BROKEN: {', '.join(finding.examples)}" if finding.broken else verdict
            checks.add_row(finding.promise, f"{finding.subjects:,}", str(finding.broken), verdict)
        console.print(checks)

    def _row(self, fault: Fault) -> Row:
        return self._rows.setdefault(fault.name, Row(fault))
