"""What the design has set out to reach, as a report judges it."""

from __future__ import annotations

import msgspec


class Target(msgspec.Struct, frozen=True):
    """``figure`` of ``workload``: ours, ours over that of the rival ``over``, or, of a ``shape``, what is
    kept of the figure on uniform cards."""

    title: str
    workload: str
    figure: str
    value: float
    at_least: bool = False
    over: str | None = None
    shape: bool = False

    def reached(self, found: float) -> bool:
        """Whether ``found`` is as good as the target."""
        return found >= self.value if self.at_least else found <= self.value

    def factor(self, found: float) -> float:
        """How many times better it would have to be."""
        return self.value / found if self.at_least else found / self.value
