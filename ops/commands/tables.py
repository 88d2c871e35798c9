"""Tables and amounts as the commands print them for people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stanchion.records import Money

ABSENT = "-"


def table(columns: Sequence[str], rows: Iterable[Sequence[str | None]]) -> list[str]:
    """The lines of a table: left-aligned columns, two spaces apart; ``-`` stands for ``None``."""
    cells = [list(columns), *([ABSENT if cell is None else cell for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def facts(pairs: Iterable[tuple[str, str | None]]) -> list[str]:
    """Indented lines of a name and its value, without those that have no value."""
    known = [(name, value) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in known), default=0)
    return [f"  {name:<{width}}  {value}" for name, value in known]


def second(instant: str) -> str:
    """An instant of the API (ISO 8601, UTC) to the second."""
    return instant[:19].replace("T", " ")


def money_text(money: Money | None) -> str | None:
    """``12.50 EUR``."""
    return None if money is None else f"{money['amount']} {money['currency']}"
