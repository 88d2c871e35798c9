"""A report as one self-contained HTML page with tables and plots."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from loadtests.figures import Slice
from loadtests.harness.systems import OURS, RIVALS
from loadtests.reports.plots import bars
from loadtests.reports.report import BenchReport

_STYLE: Final = """
    body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 60rem; margin: 2rem auto }
    body { padding: 0 1rem } h2 { margin-top: 2.2rem }
    table { border-collapse: collapse; font-size: 12px; display: block; overflow-x: auto }
    th, td { text-align: left; padding: 2px 10px; border-bottom: 1px solid #ddd; white-space: nowrap }
    svg { max-width: 100%; height: auto } svg text { font: 11px system-ui, sans-serif; fill: #333 }
"""
_SYSTEMS: Final = (OURS, *RIVALS)
_SECTIONS: Final = {
    "Uniform and not": ("router", "router-zipf", "router-half", "router-hot", "router-caps"),
    "Stand-in on one programme": ("stand-in", "stand-in-tight"),
    "Over ISO 8583": ("wire", "wire-hot"),
    "The database 1 ms away": ("far", "far-hot", "far-1"),
}
_OPEN: Final[tuple[str, ...]] = ("router-open", "wire-open")


def page(report: BenchReport) -> str:
    """The report of ``loadtests.bench``."""
    parts: list[str] = []
    for title, workloads in _SECTIONS.items():
        found = {name: report.summary[name] for name in workloads if name in report.summary}
        if found:
            parts += _section(
                title, "decisions a second; more is better", found, "decisions_per_second", "/s"
            )
            parts += _section(
                "", "server CPU for each decision; less is better", found, "server_cpu_us", "µs"
            )
    at_one_rate = {name: report.summary[name] for name in _OPEN if name in report.summary}
    if at_one_rate:
        about = "latency at 500 decisions a second, from the instant at which each was due; less is better"
        parts += _section("At a common rate", f"p50: {about}", at_one_rate, "p50_ms", "ms")
        parts += _section("", f"p99: {about}", at_one_rate, "p99_ms", "ms")
    return document("Stanchion: benchmark", [*parts, "<h2>Figures</h2>", markdown(report.text())])


def document(title: str, parts: Iterable[str]) -> str:
    """A whole page around ``parts``, which are HTML."""
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    body = "\n".join((f"<h1>{escape(title)}</h1>", *parts))
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n{body}\n</body></html>\n'


def markdown(text: str) -> str:
    """Lists and tables, the only Markdown in reports, as HTML."""
    return "\n".join(_block(block.splitlines()) for block in text.strip().split("\n\n"))


def _block(lines: Sequence[str]) -> str:
    if lines[0].startswith("|"):
        head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
        return f"<table>{_row(head, 'th')}{''.join(_row(row, 'td') for row in rows)}</table>"
    items = "".join(f"<li>{escape(line.removeprefix('- '))}</li>" for line in lines)
    return f"<ul>{items}</ul>"


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"


def _section(
    title: str, about: str, found: Mapping[str, dict[str, Slice]], figure: str, unit: str
) -> list[str]:
    groups = {
        workload: {system: float(getattr(each, figure)) for system, each in systems.items()}
        for workload, systems in found.items()
    }
    head = [f"<h2>{escape(title)}</h2>"] if title else []
    return [*head, f"<p>{escape(about)}</p>", bars(groups, unit, _SYSTEMS)]
