"""Authorization rules in headroom: the amounts that rules decline, and the limits that they set.

Whether a rule matches can change only at a few amounts, which its conditions name. Between two of them it is
evaluated once, with the predicates of the decision. A rule may decline small amounts and pass larger ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import date, timedelta
from typing import Any, Final, Literal, NamedTuple

import msgspec

from engine.commands import Authorize
from engine.decision import risk
from engine.decision.inputs import Inputs, cvv2_failures_on, day_of
from engine.instant import day_end_ms, day_label
from engine.rules.evaluate import BoundCondition, BoundRule, RuleSet, counted_of
from engine.rules.model import Condition, Velocity
from engine.rules.velocity import DISTINCT, filter_of

_UPPER_LIMITS: Final = {"gt": 0, "gte": 1}
"""By how much a limit is below the value of the condition that declines."""
_AMOUNT_DEPENDENT: Final = frozenset({"amount", "risk_score", "velocity"})
_PER_COUNT: Final = DISTINCT | {"count"}


class RuleLimit(NamedTuple):
    """The limit that one condition of a rule sets; ``engine.decision.headroom.Limit`` has the fields."""

    label: str
    limit: int
    used: int
    unit: Literal["amount", "count"]
    resets_ms: int | None


class Rules(NamedTuple):
    """The rules in force for a purchase: ``command``, whose amount is ignored, and the inputs of its
    decision."""

    rules: RuleSet
    command: Authorize
    inputs: Inputs

    def largest_passing_minor(self, bound_minor: int) -> int:
        """The largest amount up to ``bound_minor`` that no rule declines; 0 if they decline every amount."""
        ranges = [each for rule in self.rules.active for each in self._declined(rule, bound_minor)]
        passing_minor = bound_minor
        for first, last in sorted(ranges, key=lambda each: each[1], reverse=True):
            if first <= passing_minor <= last:
                passing_minor = first - 1
        return passing_minor

    def limits(self) -> Iterator[RuleLimit]:
        """The limits of the rules whose other conditions hold for the purchase."""
        for rule in self.rules.active:
            if self._may_decline(rule):
                for condition in rule.when:
                    yield from self._limit(rule, condition)

    def _may_decline(self, rule: BoundRule) -> bool:
        """Whether the conditions of ``rule`` hold that do not depend on the amount."""
        fixed = (each for position, each in enumerate(rule.conditions) if not _varies(rule, position))
        return self._all_hold(fixed, 1)

    def _declined(self, rule: BoundRule, bound_minor: int) -> Iterator[tuple[int, int]]:
        """The ranges of amounts from 1 to ``bound_minor`` that ``rule`` declines."""
        if not self._may_decline(rule):
            return
        varying = [each for position, each in enumerate(rule.conditions) if _varies(rule, position)]
        found = {point for condition in rule.when for point in self._changes(condition)}
        first = 1
        for last in (*sorted(point for point in found if 1 <= point < bound_minor), bound_minor):
            if self._all_hold(varying, first):
                yield first, last
            first = last + 1

    def _all_hold(self, conditions: Iterable[BoundCondition], amount_minor: int) -> bool:
        """Whether ``conditions`` hold for a purchase of ``amount_minor``."""
        command = msgspec.structs.replace(self.command, amount_minor=amount_minor)
        points = risk.score(command, cvv2_failures_on(self.inputs, day_of(self.inputs)))
        readers, inputs = self.rules.readers, self.inputs
        return all(
            holds(readers[index](command, inputs, points)) for index, holds, _show, _text in conditions
        )

    def _changes(self, condition: Condition) -> Iterator[int]:
        """Amounts at which ``condition`` may hold, and one minor unit more not, or the reverse."""
        if condition.attribute == "risk_score":
            yield risk.HIGH_AMOUNT_MINOR - 1
        elif condition.attribute == "amount":
            yield from _around(condition, 0)
        elif condition.velocity is not None:
            if condition.velocity.measure == "amount":
                yield from _around(condition, self._observed(condition.velocity).value)
            for each in condition.velocity.where:
                if each.attribute == "amount":
                    yield from _around(each, 0)

    def _limit(self, rule: BoundRule, condition: Condition) -> Iterator[RuleLimit]:
        below, value = _UPPER_LIMITS.get(condition.op), condition.value
        if below is None or not isinstance(value, int):
            return
        limit, velocity = value - below, condition.velocity
        if condition.attribute == "amount":
            yield RuleLimit(rule.label, limit, 0, "amount", None)
        if velocity is None or not self._counts(velocity):
            return
        resets_ms = _resets_ms(velocity.window, self.inputs.now_ms, self.inputs.timezone)
        used = self._observed(velocity).value
        if velocity.measure == "amount":
            yield RuleLimit(rule.label, limit, used, "amount", resets_ms)
        elif velocity.measure in _PER_COUNT:
            yield RuleLimit(rule.label, limit, used, "count", resets_ms)

    def _counts(self, velocity: Velocity) -> bool:
        """Whether an approval of the purchase raises ``velocity`` for some amount."""
        if velocity.measure in DISTINCT and self._observed(velocity).seen:
            return False
        matches = filter_of(tuple(each for each in velocity.where if each.attribute != "amount"))
        return matches is None or matches(counted_of(self.command, self.inputs.now_ms))

    def _observed(self, velocity: Velocity) -> Any:
        in_force = self.inputs.rules_in_force
        assert in_force is not None, "the inputs have the observed values of the rules"
        return in_force.observed[self.rules.velocities.index(velocity)]


def _varies(rule: BoundRule, position: int) -> bool:
    """Whether the condition at ``position`` can depend on the amount. A rule that demands authentication has
    one more condition than its issuer wrote."""
    return position < len(rule.when) and rule.when[position].attribute in _AMOUNT_DEPENDENT


def _around(condition: Condition, observed: int) -> Iterator[int]:
    """The amounts at which a sum with ``observed`` reaches and leaves each value of ``condition``."""
    values = condition.value if isinstance(condition.value, tuple) else (condition.value,)
    for value in values:
        assert isinstance(value, int), "amounts are compared with amounts"
        yield from (value - observed - 1, value - observed)


def _resets_ms(window: str, now_ms: int, zone: str) -> int | None:
    """The end of a calendar window; ``None`` for a trailing one, which purchases leave one by one."""
    today = date.fromisoformat(day_label(now_ms, zone))
    if window == "day":
        last = today
    elif window == "week":
        last = today + timedelta(days=6 - today.weekday())
    elif window == "month":
        last = (today.replace(day=1) + timedelta(days=32)).replace(day=1) - timedelta(days=1)
    elif window == "year":
        last = today.replace(month=12, day=31)
    else:
        return None
    return day_end_ms(last.isoformat(), zone)
