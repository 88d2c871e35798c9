"""What a reversal or an advice gives back counts back on the day on which it was counted: of an increment, on
the increment's day; of the whole, from the newest increment to the first approval.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import Counted, Effect, IncrementSet
from engine.cards.authorization import Authorization


class GivenBack(msgspec.Struct, frozen=True, gc=False):
    """The counters' effects, and for the record what each increment gave."""

    effects: tuple[Effect, ...]
    uncounted: dict[str, int]


def count_back(
    original: Authorization, given_minor: int, count: int, named: str | None = None, left_minor: int = 0
) -> GivenBack:
    """Count ``given_minor`` of ``original`` back, and ``count`` purchases on its first day. With ``named``,
    that increment gives first, and ``left_minor`` is left of it."""
    order = list(reversed(original.raised))
    if named is not None:
        order.remove(named)
        order.insert(0, named)
    effects: list[Effect] = []
    uncounted: dict[str, int] = {}
    rest_minor = given_minor
    for name in order:
        increment = original.raised[name]
        part_minor = min(rest_minor, increment.counted_minor)
        if part_minor:
            effects.append(Counted(increment.day, -part_minor, 0))
            uncounted[name] = part_minor
            rest_minor -= part_minor
        if part_minor or name == named:
            left = left_minor if name == named else increment.left_minor
            effects.append(IncrementSet(name, left, increment.day, increment.counted_minor - part_minor))
    if rest_minor or count:
        effects.append(Counted(original.day, -rest_minor, count))
    return GivenBack(tuple(effects), uncounted)
