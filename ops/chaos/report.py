"""The report: for each promise its faults and checks, the number of rounds, the worst figure and the verdict.

Only a promise that was tried can hold. A fault that was never injected, a check without subjects, and a
promise without a row are *not shown*; a run with one of them has not passed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console
from rich.table import Table

from ops.audit import Finding
from ops.chaos.checks import promise_of
from ops.chaos.faults.fault import Fault, Outcome

PROMISES: Final = tuple(f"G{number}" for number in range(1, 21))
"""The promises of GUARANTEES.md."""
HELD: Final = "held"
CHECKED: Final = "broken"
"""The unit of checks; their rounds are the number of subjects."""
BEGIN: Final = "<!-- chaos: begin -->"
END: Final = "<!-- chaos: end -->"


@dataclass
class ReportRow:
    """The results of one fault or check."""

    promise: str
    name: str
    unit: str
    rounds: int = 0
    figures: list[float] = field(default_factory=list)
    least: bool = False
    """Whether the lowest figure is the worst."""
    broken: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Why rounds showed nothing."""

    @property
    def worst(self) -> float | None:
        """The figure of the worst round."""
        if not self.figures:
            return None
        return min(self.figures) if self.least else max(self.figures)

    @property
    def verdict(self) -> str:
        if self.broken:
            return f"BROKEN {len(self.broken)}×: {self.broken[0]}"
        if not self.rounds:
            return f"not shown: {self.missed[0] if self.missed else 'never tried'}"
        if self.missed and self.unit != CHECKED:
            return f"{HELD}; {len(self.missed)} more not injected"
        return HELD

    @property
    def held(self) -> bool:
        """Whether it was tried, and held in every round."""
        return bool(self.rounds) and not self.broken

    @property
    def figure(self) -> str:
        """The worst figure with its unit."""
        return "–" if self.worst is None else f"{self.worst:,.10g} {self.unit}"


class ChaosReport:
    """The results of a run. ``expected``: the promises that this run must show."""

    def __init__(self, seed: int, expected: Iterable[str] = ()) -> None:
        self._seed = seed
        self._expected = frozenset(expected)
        self._rows: dict[tuple[str, str], ReportRow] = {}
        self.operations = 0
        self.circumstances = ""
        """The machine and the duration."""

    # --- recording ------------------------------------------------------------------------------------------

    def wants(self, fault: Fault) -> None:
        """Expect ``fault`` in this run: until it has been injected, it is *not shown*."""
        self._row(fault)

    def injected(self, fault: Fault, outcome: Outcome) -> None:
        """Record a round of a fault, or several that ran at once."""
        row = self._row(fault)
        row.rounds += outcome.rounds
        row.figures.append(round(outcome.figure, 3))
        row.broken += outcome.broken
        beyond = beyond_limit(fault, outcome.figure)
        if beyond:
            row.broken.append(beyond)

    def not_injected(self, fault: Fault, reason: str) -> None:
        """Record that a round could not be injected."""
        self._row(fault).missed.append(reason)

    def failed(self, fault: Fault, reason: str) -> None:
        """Record a round after which the installation did not recover."""
        row = self._row(fault)
        row.rounds += 1
        row.broken.append(reason)

    def found(self, finding: Finding) -> None:
        """Record a check of the history or the books; the checks of two installations add up. A check without
        subjects gets a row only if the run must show its promise."""
        promise = promise_of(finding.promise)
        if not finding.subjects and not finding.broken and promise not in self._expected:
            return
        row = self._rows.setdefault((promise, finding.promise), ReportRow(promise, finding.promise, CHECKED))
        row.rounds += finding.subjects
        if finding.subjects:
            row.figures = [sum(row.figures) + finding.broken]
        else:
            row.missed.append("it had no subjects")
        row.broken += [", ".join(finding.examples) or "see the log"] * finding.broken

    def ended_early(self, reason: str) -> None:
        """Record that the run could not continue."""
        row = self._rows.setdefault(("–", "the whole run"), ReportRow("–", "the whole run", ""))
        row.rounds += 1
        row.broken.append(reason)

    # --- results --------------------------------------------------------------------------------------------

    @property
    def passed(self) -> bool:
        """Whether every expected fault and check was tried, and held."""
        return bool(self._rows) and all(row.held for row in self.rows())

    def rows(self) -> list[ReportRow]:
        """All rows in the order of the promises, including promises without a result."""
        shown = {promise for promise, _ in self._rows}
        missing = [ReportRow(promise, "–", "") for promise in sorted(self._expected - shown)]
        return sorted([*self._rows.values(), *missing], key=lambda row: _number(row.promise))

    def show(self) -> None:
        """Print the table and the verdict."""
        console = Console(width=170, soft_wrap=False)
        table = Table(title=f"chaos, seed {self._seed}, {self.operations:,} operations in the history")
        for title in ("promise", "fault or check"):
            table.add_column(title)
        for title in ("rounds", "worst figure"):
            table.add_column(title, justify="right")
        table.add_column("verdict")
        for row in self.rows():
            table.add_row(row.promise, row.name, f"{row.rounds:,}", row.figure, row.verdict)
        console.print(table)
        verdict = "Every promise of this run was tried, and held." if self.passed else "NOT PASSED."
        console.print(verdict)

    def markdown(self) -> str:
        """The table as Markdown, between the markers of GUARANTEES.md."""
        lines = [
            BEGIN,
            f"{time.strftime('%Y-%m-%d')}, {self.circumstances}: seed {self._seed}, {self.operations:,}"
            " operations in the history. Rounds of a check are its subjects. The figure is that of the worst"
            " round.",
            "",
            "| promise | fault or check | rounds | worst figure | verdict |",
            "|---|---|---|---|---|",
        ]
        lines += [
            f"| {row.promise} | {row.name} | {row.rounds:,} | {row.figure} | {_cell(row.verdict)} |"
            for row in self.rows()
        ]
        return "\n".join([*lines, END])

    def _row(self, fault: Fault) -> ReportRow:
        made = ReportRow(fault.promise, fault.name, fault.unit, least=fault.least)
        return self._rows.setdefault((fault.promise, fault.name), made)


def beyond_limit(fault: Fault, figure: float) -> str | None:
    """The violation text if ``figure`` is on the wrong side of the fault's limit."""
    if fault.limit is None:
        return None
    if fault.least:
        return f"{figure:.2f} is less than {fault.limit:g}" if figure < fault.limit else None
    return f"{figure:.4g} is more than {fault.limit:g}" if figure > fault.limit else None


def _number(promise: str) -> int:
    digits = promise.removeprefix("G")
    return int(digits) if digits.isdecimal() else 0


def _cell(text: str) -> str:
    return text.replace("|", "/").replace("\n", " ")
