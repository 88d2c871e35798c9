"""Tables that read well in a terminal and on a page."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned."""
    lines = [tuple(head), *map(tuple, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    drawn = [
        " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines
    ]
    rule = "|".join("-" * (width + 2) for width in widths)
    return "\n".join((f"| {drawn[0]} |", f"|{rule}|", *(f"| {line} |" for line in drawn[1:])))


def measured_on() -> str:
    """The date, and how busy the machine is: the first line of a report."""
    load, cores = os.getloadavg()[1], os.cpu_count() or 1
    shared = ", shared with other work" if load > cores else ""
    return f"Measured on {datetime.now(UTC):%Y-%m-%d} on {cores} cores{shared}; load average {load:.1f}."
