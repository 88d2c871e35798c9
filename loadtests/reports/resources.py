"""The parts of a report about resources: bytes for each decision, and installations without load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from loadtests.figures import Slice, TableGrowth
from loadtests.harness.footprint import Footprint
from loadtests.reports.text import table

BYTES_SHOWN_MIN: Final = 1.0
"""Tables that grow by less for each decision are left out."""
PARTS_SHOWN: Final = 6
MEGABYTE: Final = 2**20


def bytes_of(summary: Mapping[str, Mapping[str, Slice]]) -> str:
    """The bytes that a decision adds to the log, to the tables and to the indexes; empty if none were
    measured."""
    rows = [
        (f"{workload}, {system}", *_bytes_of(found))
        for workload, systems in summary.items()
        for system, found in systems.items()
        if found.wal_bytes is not None or found.tables
    ]
    head = ("bytes for each decision", "log", "rows", "indexes", "rows + indexes, by table")
    return table(head, rows) if rows else ""


def total(found: Slice) -> TableGrowth:
    """The growth of all tables."""
    return sum(found.tables.values(), start=TableGrowth())


def each_decision(count: float, found: Slice) -> float:
    """``count`` divided by the decisions of the slices."""
    return count / max(1, found.decided)


def _bytes_of(found: Slice) -> tuple[str, ...]:
    log = "" if found.wal_bytes is None else f"{found.wal_bytes:,.0f}"
    if not found.tables:
        return log, "", "", ""
    grown = total(found)
    tables = sorted(found.tables.items(), key=lambda item: -(item[1].row_bytes + item[1].index_bytes))
    parts = [
        f"{name} {each_decision(each.row_bytes, found):,.0f} + {each_decision(each.index_bytes, found):,.0f}"
        for name, each in tables
        if each_decision(each.row_bytes + each.index_bytes, found) >= BYTES_SHOWN_MIN
    ]
    rows, indexes = (each_decision(count, found) for count in (grown.row_bytes, grown.index_bytes))
    return log, f"{rows:,.0f}", f"{indexes:,.0f}", ", ".join(parts)


def at_rest(footprints: Sequence[Footprint]) -> str:
    """Installations without load; empty if none was measured."""
    rows = [
        (
            each.system,
            f"{each.ready_seconds:.1f}",
            f"{sum(each.idle_cpu.values()):.1%}",
            f"{sum(each.pss_bytes.values()) / MEGABYTE:,.0f}",
            f"{each.processes}",
            _parts({part: f"{share:.1%}" for part, share in _largest(each.idle_cpu) if share >= 0.0005}),
            _parts({part: f"{size / MEGABYTE:,.0f}" for part, size in _largest(each.pss_bytes)}),
        )
        for each in footprints
    ]
    head = ("installation without load", "seconds to ready", "of one core", "PSS MB", "processes")
    return table((*head, "core, by part", "PSS MB, by part"), rows) if rows else ""


def _largest(parts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(parts.items(), key=lambda part: -part[1])[:PARTS_SHOWN]


def _parts(shown: Mapping[str, str]) -> str:
    return ", ".join(f"{part} {value}" for part, value in shown.items())
