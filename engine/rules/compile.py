"""Compilation: a condition becomes a predicate of one value, once for each version of its rule."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from engine.limits import RULE_SETS_MAX
from engine.money import format_minor
from engine.rules.attributes import ATTRIBUTES, UNAUTHENTICATED, WEEKDAYS, Type, normalized_name
from engine.rules.model import Condition, Rule, Velocity

Predicate: TypeAlias = Callable[[Any], bool]
Source: TypeAlias = str | Velocity
"""Where a value comes from: the name of an attribute, or a velocity."""

FIRST_AT_MERCHANT: Final = Velocity("distinct_merchants", "lifetime")
"""The velocity from which ``first_at_merchant`` is read."""
_SHOWN_VALUES: Final = 3


class CompiledCondition(NamedTuple):
    """``show`` turns a value into that of the trace; ``None`` leaves it as it is."""

    source: Source
    holds: Predicate
    show: Callable[[Any], Any] | None
    text: str
    """The condition as the trace shows it."""


class CompiledRule(NamedTuple):
    """One version of a rule, ready for evaluation."""

    name: tuple[str, int]
    """Id and version."""
    label: str
    """The name of its trace steps."""
    decline_reason: str
    detail: str
    conditions: tuple[CompiledCondition, ...]


@lru_cache(maxsize=RULE_SETS_MAX)
def compile_rule(rule: Rule) -> CompiledRule:
    """The conditions of ``rule`` as predicates. The API has validated them."""
    conditions = tuple(compile_condition(each) for each in rule.when)
    if rule.action == "require_authentication":
        conditions += (CompiledCondition(UNAUTHENTICATED, bool, _flag, f"{UNAUTHENTICATED} eq true"),)
    reason = "rule_declined" if rule.action == "decline" else "authentication_required"
    label = f"rule:{rule.id}@{rule.version}"
    return CompiledRule((rule.id, rule.version), label, reason, rule.reason, conditions)


def compile_condition(condition: Condition) -> CompiledCondition:
    """One condition as a predicate of the value of its source."""
    type_ = ATTRIBUTES[condition.attribute].type
    velocity = condition.velocity
    if velocity is not None:
        amounts = velocity.measure == "amount"
        name = f"velocity {velocity.measure} {velocity.window}"
        return CompiledCondition(
            velocity,
            _comparison(condition),
            format_minor if amounts else None,
            _text(condition, name, amounts),
        )
    show = {"amount": format_minor, "boolean": _flag, "time": _clock}.get(type_)
    text = _text(condition, condition.attribute, type_ == "amount")
    return CompiledCondition(condition.attribute, predicate(condition, type_), show, text)


def predicate(condition: Condition, type_: Type) -> Predicate:
    """The predicate of ``op value`` for an attribute of ``type_``."""
    if type_ == "weekday" and condition.op == "between":
        return _weekdays(condition)
    if type_ in ("string", "weekday"):
        return _membership(condition)
    if type_ == "name":
        return _name(condition)
    if type_ == "time":
        return _time(condition)
    return _comparison(condition)


def _membership(condition: Condition) -> Predicate:
    value = condition.value
    listed = isinstance(value, tuple)
    listed_values = value if isinstance(value, tuple) else (value,)
    values = frozenset(_codes(listed_values) if condition.attribute == "mcc" else listed_values)
    negated = condition.op == "not_in" if listed else condition.op == "ne"
    return (lambda seen: seen not in values) if negated else values.__contains__


def _codes(values: tuple[Any, ...]) -> list[str]:
    """``values`` with each range of category codes (``3000-3350``) written out."""
    codes: list[str] = []
    for value in values:
        first, dash, last = str(value).partition("-")
        if dash and first.isdigit() and last.isdigit():
            codes += [f"{code:04d}" for code in range(int(first), int(last) + 1)]
        else:
            codes.append(str(value))
    return codes


def _name(condition: Condition) -> Predicate:
    value = condition.value
    if isinstance(value, tuple):
        return frozenset(normalized_name(str(each)) for each in value).__contains__
    wanted = normalized_name(str(value))
    if condition.op == "eq":
        return wanted.__eq__
    if condition.op == "contains":
        return lambda seen: wanted in seen
    return lambda seen: seen.startswith(wanted)


def _time(condition: Condition) -> Predicate:
    """From the first minute up to the second, which is excluded; over midnight if the second is earlier."""
    assert isinstance(condition.value, tuple), "a time has two ends"
    first, end = (_minutes(str(each)) for each in condition.value)
    if first <= end:
        return lambda seen: first <= seen < end
    return lambda seen: seen >= first or seen < end


def _weekdays(condition: Condition) -> Predicate:
    """From the first day to the last, both included; over Sunday if the last is earlier."""
    assert isinstance(condition.value, tuple), "a span of days has two ends"
    first, last = (WEEKDAYS.index(str(each)) for each in condition.value)
    days = range(first, last + 1 if first <= last else last + 8)
    return frozenset(WEEKDAYS[day % 7] for day in days).__contains__


def _minutes(text: str) -> int:
    hours, _, minutes = text.partition(":")
    return int(hours) * 60 + int(minutes)


def _comparison(condition: Condition) -> Predicate:
    value: Any = condition.value
    if condition.op == "between":
        low, high = value
        return lambda seen: low <= seen <= high
    # A bound method of an integer takes half the time of a lambda; ``seen > value`` is ``value < seen``.
    comparisons: dict[str, Predicate] = {
        "eq": value.__eq__,
        "lt": value.__gt__,
        "lte": value.__ge__,
        "gt": value.__lt__,
        "gte": value.__le__,
    }
    return comparisons[condition.op]


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _clock(minutes: int) -> str:
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _text(condition: Condition, name: str, amounts: bool) -> str:
    value = condition.value
    values = value if isinstance(value, tuple) else (value,)
    shown = [_shown(each, amounts) for each in values[:_SHOWN_VALUES]]
    more = len(values) - len(shown)
    return f"{name} {condition.op} {', '.join(shown)}" + (f" and {more} more" if more else "")


def _shown(value: Any, amounts: bool) -> str:
    if isinstance(value, bool):
        return _flag(value)
    return format_minor(value) if amounts else str(value)
