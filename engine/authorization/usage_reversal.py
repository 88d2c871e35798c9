"""Usage reversal: a reversed amount is subtracted from the usage of the day on which it was counted.

An increment counted on its own day. A reversal of the whole authorization subtracts from the newest increment
first, and from the first approval last.
"""

from __future__ import annotations

import msgspec

from engine.authorization.effects import Effect, IncrementSet, UsageCounted
from engine.cards.authorization import Authorization


class UsageReversal(msgspec.Struct, frozen=True, gc=False):
    """The effects on the counters, and for the record the amount subtracted for each increment."""

    effects: tuple[Effect, ...]
    uncounted: dict[str, int]


def reverse_usage(
    original: Authorization, amount_minor: int, count: int, named: str | None = None, left_minor: int = 0
) -> UsageReversal:
    """Subtract ``amount_minor`` from the usage of ``original``, and add ``count`` (0 or -1) to the purchases
    of its first day. The increment ``named`` comes first if given, and ``left_minor`` remains of it."""
    order = list(reversed(original.increments))
    if named is not None:
        order.remove(named)
        order.insert(0, named)
    effects: list[Effect] = []
    uncounted: dict[str, int] = {}
    rest_minor = amount_minor
    for name in order:
        increment = original.increments[name]
        part_minor = min(rest_minor, increment.counted_minor)
        if part_minor:
            effects.append(UsageCounted(increment.day, -part_minor, 0))
            uncounted[name] = part_minor
            rest_minor -= part_minor
        if part_minor or name == named:
            left = left_minor if name == named else increment.left_minor
            effects.append(IncrementSet(name, left, increment.day, increment.counted_minor - part_minor))
    if rest_minor or count:
        effects.append(UsageCounted(original.day, -rest_minor, count))
    return UsageReversal(tuple(effects), uncounted)
