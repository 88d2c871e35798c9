"""The table: each promise, how often it was tried, the worst figure, and the verdict.

Only what was tried can have held. A fault that was never injected, a check that had nothing to look at, and
a promise of which the run has nothing to say are *not shown*, and no run with one of them has passed.
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
"""Those of GUARANTEES.md."""
HELD: Final = "held"
CHECKED: Final = "broken"
"""The unit of checks, whose rounds are what they looked at."""
BEGIN: Final = "<!-- chaos: begin -->"
END: Final = "<!-- chaos: end -->"


@dataclass
class ReportRow:
    """What has been tried for a promise in one way, and what came of it."""

    promise: str
    name: str
    unit: str
    rounds: int = 0
    figures: list[float] = field(default_factory=list)
    least: bool = False
    """Whether the lowest figure is the worst."""
    broken: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    """Why rounds have shown nothing."""

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
        """Whether it was tried, and held whenever it was."""
        return bool(self.rounds) and not self.broken

    @property
    def figure(self) -> str:
        """The worst figure with its unit."""
        return "–" if self.worst is None else f"{self.worst:,.10g} {self.unit}"


class ChaosReport:
    """Everything that was tried. ``expected``: the promises that this run is to show."""

    def __init__(self, seed: int, expected: Iterable[str] = ()) -> None:
        self._seed = seed
        self._expected = frozenset(expected)
        self._rows: dict[tuple[str, str], ReportRow] = {}
        self.operations = 0
        self.circumstances = ""
        """On which machine, and how long."""

    # --- what happens -------------------------------------------------------------------------------------

    def wants(self, fault: Fault) -> None:
        """``fault`` belongs to this run: until it has been injected, it is not shown."""
        self._row(fault)

    def injected(self, fault: Fault, outcome: Outcome) -> None:
        """One round of a fault, or several in one go."""
        row = self._row(fault)
        row.rounds += outcome.rounds
        row.figures.append(round(outcome.figure, 3))
        row.broken += outcome.broken
        beyond = beyond_limit(fault, outcome.figure)
        if beyond:
            row.broken.append(beyond)

    def not_injected(self, fault: Fault, reason: str) -> None:
        """A round that shows nothing."""
        self._row(fault).missed.append(reason)

    def failed(self, fault: Fault, reason: str) -> None:
        """A round after which the installation was not itself again."""
        row = self._row(fault)
        row.rounds += 1
        row.broken.append(reason)

    def found(self, finding: Finding) -> None:
        """A check over the whole history of an installation; of a second one, it adds up. One without
        subjects is left out where its promise was."""
        promise = promise_of(finding.promise)
        if not finding.subjects and not finding.broken and promise not in self._expected:
            return
        row = self._rows.setdefault((promise, finding.promise), ReportRow(promise, finding.promise, CHECKED))
        row.rounds += finding.subjects
        if finding.subjects:
            row.figures = [sum(row.figures) + finding.broken]
        else:
            row.missed.append("there was nothing to look at")
        row.broken += [", ".join(finding.examples) or "see the log"] * finding.broken

    def ended_early(self, reason: str) -> None:
        """The run could not go on."""
        row = self._rows.setdefault(("–", "the run itself"), ReportRow("–", "the run itself", ""))
        row.rounds += 1
        row.broken.append(reason)

    # --- what it comes to ---------------------------------------------------------------------------------

    @property
    def passed(self) -> bool:
        """Whether everything that belongs to this run was tried, and held."""
        return bool(self._rows) and all(row.held for row in self.rows())

    def rows(self) -> list[ReportRow]:
        """In the order of the promises, those without anything among them."""
        shown = {promise for promise, _ in self._rows}
        missing = [ReportRow(promise, "–", "") for promise in sorted(self._expected - shown)]
        return sorted([*self._rows.values(), *missing], key=lambda row: _number(row.promise))

    def show(self) -> None:
        """Print the table, and the same as text for GUARANTEES.md."""
        console = Console(width=170, soft_wrap=False)
        table = Table(title=f"chaos, seed {self._seed}, {self.operations:,} operations in the history")
        for title in ("promise", "what was done, or looked at"):
            table.add_column(title)
        for title in ("rounds", "worst figure"):
            table.add_column(title, justify="right")
        table.add_column("verdict")
        for row in self.rows():
            table.add_row(row.promise, row.name, f"{row.rounds:,}", row.figure, row.verdict)
        console.print(table)
        verdict = "Everything that belongs to this run was tried, and held." if self.passed else "NOT PASSED."
        console.print(verdict)

    def markdown(self) -> str:
        """What goes between the markers of GUARANTEES.md."""
        lines = [
            BEGIN,
            f"{time.strftime('%Y-%m-%d')}, {self.circumstances}: seed {self._seed}, {self.operations:,}"
            " operations in the history. Rounds of a check are what it looked at; the figure is that of the"
            " worst round.",
            "",
            "| promise | what was done, or looked at | rounds | worst figure | verdict |",
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
    """What to say of a figure on the wrong side of its limit."""
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
