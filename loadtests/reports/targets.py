"""Performance targets, and how a report judges them."""

from __future__ import annotations

import msgspec


class Target(msgspec.Struct, frozen=True):
    """A bound on ``figure`` of ``workload``: on Stanchion's own figure, on its ratio to the rival ``over``,
    or, with ``shape``, on its ratio to the figure on uniform cards."""

    title: str
    workload: str
    figure: str
    value: float
    at_least: bool = False
    over: str | None = None
    shape: bool = False

    def reached(self, found: float) -> bool:
        """Whether ``found`` meets the target."""
        return found >= self.value if self.at_least else found <= self.value

    def factor(self, found: float) -> float:
        """The factor by which ``found`` misses the target (below 1: it is met)."""
        return self.value / found if self.at_least else found / self.value
