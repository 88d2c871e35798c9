"""Random choices of load tests, as pure functions: the next kind of step, and the card.

Most steps are spends; the others follow up on earlier spends, as merchants do.
"""

from __future__ import annotations

import itertools
import random
from bisect import bisect
from collections import deque
from collections.abc import Mapping
from typing import Final, Generic, Literal, TypeVar

Step = Literal["spend", "increment", "clear", "reverse", "refund"]
Draw = Literal["uniform", "zipf"]
Sale = TypeVar("Sale")

MIX: Final[Mapping[Step, int]] = {"spend": 70, "increment": 10, "clear": 10, "reverse": 5, "refund": 5}
"""Intended share of each step, in percent."""
ZIPF_EXPONENT: Final = 1.1
OPEN_SALES_MAX: Final = 1_000
"""Sales that one user remembers to follow up on."""

_STEPS: Final = tuple(MIX)
_WEIGHTS: Final = tuple(MIX.values())


class Cards:
    """Draws cards, uniformly or by Zipf's law (few cards very often, most cards rarely)."""

    def __init__(self, count: int, draw: Draw, chance: random.Random) -> None:
        weights = [1.0 if draw == "uniform" else rank**-ZIPF_EXPONENT for rank in range(1, count + 1)]
        self._cumulative = list(itertools.accumulate(weights))
        self._chance = chance

    def draw(self) -> int:
        """The number of a card, from 0."""
        return bisect(self._cumulative, self._chance.random() * self._cumulative[-1])


class Sales(Generic[Sale]):
    """The approved sales of one user that allow a follow-up, and the choice of the next step."""

    def __init__(self, chance: random.Random) -> None:
        self._open: deque[Sale] = deque(maxlen=OPEN_SALES_MAX)
        self._chance = chance

    def __len__(self) -> int:
        return len(self._open)

    def next_step(self) -> Step:
        """A kind of step, drawn from the mix; without an open sale, a spend replaces a follow-up."""
        (step,) = self._chance.choices(_STEPS, _WEIGHTS)
        return step if step in ("spend", "refund") or self._open else "spend"

    def add(self, sale: Sale) -> None:
        """Add a sale that was approved or raised."""
        self._open.append(sale)

    def take(self) -> Sale:
        """Remove and return the oldest sale."""
        return self._open.popleft()


def amount_minor(chance: random.Random) -> int:
    """An everyday amount in minor units, usually small."""
    return min(50_000, int(100 * chance.lognormvariate(2.8, 0.9)) + 1)
