"""How spends are spread over cards, as weights: pure, and the same for every system."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from loadtests.generators.traffic import ZIPF_EXPONENT

HALF: Final = 0.5


def uniform(_count: int) -> Sequence[float] | None:
    """All cards are equally likely: no weights."""
    return None


def zipf(count: int) -> Sequence[float]:
    """The card of rank ``n`` is ``n ** 1.1`` times less likely than the first."""
    return [rank**-ZIPF_EXPONENT for rank in range(1, count + 1)]


def half(count: int) -> Sequence[float]:
    """One card takes half of all spends; the others share the rest equally."""
    if count == 1:
        return [1.0]
    return [HALF, *[(1 - HALF) / (count - 1)] * (count - 1)]


DRAWS: Final[Mapping[str, Callable[[int], Sequence[float] | None]]] = {
    "uniform": uniform,
    "zipf": zipf,
    "half": half,
}
