"""The report of ``loadtests.storage``: rows and bytes for each decision, by table."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from loadtests.figures import TableGrowth
from loadtests.reports.text import table

ROWS_SHOWN_MIN = 0.01
BYTES_SHOWN_MIN = 1.0
"""A table with less of both for each decision counts under *others*."""


class Stored(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that ``decisions`` decisions of one system wrote."""

    system: str
    decisions: int
    log_bytes: int
    page_image_bytes: int
    """The part of ``log_bytes`` that are full page images."""
    rows: dict[str, int]
    """Rows by which each table grew."""
    tables: dict[str, TableGrowth]


def text(found: Sequence[Stored]) -> str:
    """Every system's table as Markdown, and the ratio of their totals."""
    blocks = [_one(each) for each in found]
    first, *others = found
    blocks += [_ratio(first, other) for other in others]
    return "\n\n".join((*blocks, ""))


def _one(found: Stored) -> str:
    changed = {*found.tables, *(name for name, rows in found.rows.items() if rows)}
    names = sorted(changed, key=lambda name: (-_bytes(found, name), name))
    large = [name for name in names if _is_shown(found, name)]
    small = [name for name in names if name not in large]
    rows = [(name, *_cells(found, [name])) for name in large]
    if small:
        rows.append((f"others ({', '.join(small)})", *_cells(found, small)))
    rows.append(("all tables", *_cells(found, names)))
    head = (
        f"{found.system}, for each of {found.decisions:,} decisions",
        "rows",
        "row bytes",
        "index bytes",
        "both",
    )
    images = found.page_image_bytes / found.decisions
    log = found.log_bytes / found.decisions
    about = f"- log: {log:,.0f} bytes for each decision, {images:,.0f} of them full page images"
    return f"{table(head, rows)}\n\n{about}"


def _cells(found: Stored, names: Sequence[str]) -> tuple[str, ...]:
    grown = [found.tables.get(name, TableGrowth()) for name in names]
    rows = sum(found.rows.get(name, 0) for name in names)
    row_bytes = sum(each.row_bytes for each in grown)
    index_bytes = sum(each.index_bytes for each in grown)
    shown = (f"{count / found.decisions:,.0f}" for count in (row_bytes, index_bytes, row_bytes + index_bytes))
    return f"{rows / found.decisions:,.2f}", *shown


def _bytes(found: Stored, name: str) -> int:
    grown = found.tables.get(name, TableGrowth())
    return grown.row_bytes + grown.index_bytes


def _is_shown(found: Stored, name: str) -> bool:
    many = abs(found.rows.get(name, 0)) >= ROWS_SHOWN_MIN * found.decisions
    return many or abs(_bytes(found, name)) >= BYTES_SHOWN_MIN * found.decisions


def _ratio(ours: Stored, theirs: Stored) -> str:
    kept = _kept(ours) / max(1e-9, _kept(theirs))
    log = (ours.log_bytes / ours.decisions) / max(1e-9, theirs.log_bytes / theirs.decisions)
    return f"- {ours.system} ÷ {theirs.system}: {kept:.2f} of the rows and indexes, {log:.2f} of the log"


def _kept(found: Stored) -> float:
    return sum(_bytes(found, name) for name in found.tables) / found.decisions
