"""Grouped bars and lines as SVG text, without dependencies.

Every mark carries its value as a title, which browsers show on hover.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

COLOURS: Final = ("#0b6e99", "#d9730d", "#6940a5", "#0f7b6c", "#ad1a72", "#64473a", "#9b9a97")
WIDTH: Final = 760
_LEFT: Final = 190
_BAR: Final = 13
_GAP: Final = 10
_HEIGHT: Final = 240
_LEGEND: Final = 22
_TICKS: Final = 4

Point = tuple[float, float]


def bars(groups: Mapping[str, Mapping[str, float]], unit: str, known: Sequence[str] = ()) -> str:
    """Horizontal bars: one group for each key, one bar in it for each series. Values are not negative. Series
    that are ``known`` have the same colour in every plot."""
    names = list(dict.fromkeys(name for values in groups.values() for name in values))
    order = [*known, *(name for name in names if name not in known)]
    most = max((value for values in groups.values() for value in values.values()), default=0.0) or 1.0
    drawn, at = [_legend(names, order)], _LEGEND + 4.0
    for label, values in groups.items():
        middle = at + len(values) * _BAR / 2 + 4
        drawn.append(_text(_LEFT - 8, middle, label, "end"))
        for name, value in values.items():
            length = (WIDTH - _LEFT - 90) * value / most
            about = f"{label}, {name}: {_short(value)} {unit}"
            drawn.append(
                f'<rect x="{_LEFT}" y="{at:.1f}" width="{length:.1f}" height="{_BAR - 2}"'
                f' fill="{_colour(order, name)}"><title>{escape(about)}</title></rect>'
            )
            drawn.append(_text(_LEFT + length + 4, at + _BAR - 3, _short(value), "start"))
            at += _BAR
        at += _GAP
    return _svg(at, drawn)


def lines(series: Mapping[str, Sequence[Point]], x_title: str, y_title: str) -> str:
    """Lines over a logarithmic axis (zero stands at its left end), from zero upwards."""
    points = [point for line in series.values() for point in line]
    if not points:
        return ""
    positions = [_position(x) for x, _ in points]
    least, widest = min(positions), max(positions)
    top = _nice(max(y for _, y in points))
    right, bottom = WIDTH - 20, _LEGEND + _HEIGHT

    def place(point: Point) -> Point:
        share = (_position(point[0]) - least) / (widest - least) if widest > least else 0.5
        return 80 + share * (right - 90), bottom - point[1] / top * (_HEIGHT - 20)

    drawn = [_legend(list(series), list(series))]
    for tick in range(_TICKS + 1):
        value = top * tick / _TICKS
        y = place((points[0][0], value))[1]
        drawn.append(f'<line x1="70" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
        drawn.append(_text(64, y + 4, _short(value), "end"))
    marked = sorted({x for x, _ in points})
    drawn += [_text(place((x, 0))[0], bottom + 16, _short(x), "middle") for x in marked]
    drawn.append(_text((70 + right) / 2, bottom + 36, x_title, "middle"))
    drawn.append(_text(6, _LEGEND + 12, y_title, "start"))
    for name, line in series.items():
        colour = _colour(list(series), name)
        placed = [place(point) for point in sorted(line)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for (x, y), (value, height) in zip(placed, sorted(line), strict=True):
            about = f"{name}: {_short(height)} at {_short(value)}"
            drawn.append(
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}">'
                f"<title>{escape(about)}</title></circle>"
            )
    return _svg(bottom + 44, drawn)


def _position(x: float) -> float:
    """The position of ``x`` on a logarithmic axis that has a zero."""
    return math.log10(x) if x > 0 else -0.5


def _nice(most: float) -> float:
    """A round number not below ``most``."""
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    return next(step * power for step in (1, 2, 4, 5, 8, 10) if step * power >= most)


def _legend(names: Sequence[str], order: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    drawn, x = [], 80.0
    for name in names:
        drawn.append(f'<rect x="{x:.0f}" y="2" width="11" height="11" fill="{_colour(order, name)}"/>')
        drawn.append(_text(x + 15, 12, name, "start"))
        x += 32 + 6.6 * len(name)
    return "".join(drawn)


def _colour(order: Sequence[str], name: str) -> str:
    return COLOURS[order.index(name) % len(COLOURS)]


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _short(value: float) -> str:
    """Three significant digits, thousands in groups."""
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _svg(height: float, drawn: Sequence[str]) -> str:
    body = "\n".join(filter(None, drawn))
    return f'<svg viewBox="0 0 {WIDTH} {height:.0f}" width="{WIDTH}" role="img">\n{body}\n</svg>'
