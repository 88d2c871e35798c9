"""The values of authorization rules: conditions, velocity measures, rules and their changes (``RULES.md``).

A rule declines a purchase, or demands its authentication, when all its conditions hold. It belongs to a
programme, a card product or a card. The values are stored as JSON in commands and in
``authorization_rule_versions``. ``engine.rules.attributes`` lists attributes and operators.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from engine.instant import to_text
from engine.money import format_minor

Scope = Literal["programme", "card_product", "card"]
Action = Literal["decline", "require_authentication"]
State = Literal["draft", "shadow", "active", "retired"]
Op = Literal["eq", "ne", "lt", "lte", "gt", "gte", "between", "in", "not_in", "contains", "starts_with"]
Measure = Literal["count", "amount", "declines", "distinct_merchants", "distinct_countries"]
VelocityOf = Literal["card", "account"]
Value = bool | int | str | tuple[int | str, ...]

CALENDAR_WINDOWS: Final = ("day", "week", "month", "year", "lifetime")
"""Windows that begin with a calendar period of the programme's time zone; weeks begin on Monday."""

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    "draft": frozenset({"shadow", "active", "retired"}),
    "shadow": frozenset({"active", "retired"}),
    "active": frozenset({"shadow", "retired"}),
    "retired": frozenset(),
}
"""The next states of each state of a rule; a state that is not listed is an illegal transition."""


class Velocity(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is counted in which window. The authorization being decided is included."""

    measure: Measure
    window: str
    """An ISO 8601 duration (trailing, ``PT10S`` to ``P90D``), or one of ``CALENDAR_WINDOWS``."""
    where: tuple[Condition, ...] = ()
    """Only purchases for which all these conditions hold count. Their attributes are those of
    ``engine.rules.attributes.COUNTED``."""
    of: VelocityOf = "card"
    """``account``: the purchases of all cards that share the card's funding account."""


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """``attribute op value``. Amounts are minor units of the card's currency; ``between`` has a pair, both
    ends included; ``in`` and ``not_in`` have a list, for ``mcc`` also with ranges (``3000-3350``).

    Local times are ``HH:MM`` and weekdays ``monday`` to ``sunday``, in the programme's time zone.
    """

    attribute: str
    op: Op
    value: Value
    velocity: Velocity | None = None
    """Set if ``attribute`` is ``velocity``."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a rule. ``version`` starts at 1 and rises by 1 with each change of name, conditions,
    action or reason; a change of ``state`` alone keeps it."""

    id: str
    """A UUIDv7 on the shard of the programme, or of the card for ``scope`` ``card``. A rule that only a
    back-test has is named by its place, such as ``add_rules/0``."""
    version: int = 1
    scope: Scope
    scope_id: str
    name: str
    when: tuple[Condition, ...]
    action: Action = "decline"
    reason: str
    """The issuer's own slug, shown as ``decline_detail``."""
    state: State = "draft"
    created_ms: int = 0
    updated_ms: int = 0


class RuleChange(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A change of a rule; ``None`` leaves a part unchanged."""

    rule_id: str
    name: str | None = None
    when: tuple[Condition, ...] | None = None
    action: Action | None = None
    reason: str | None = None
    state: State | None = None


def in_order(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """The rules of one scope in the order of evaluation."""
    return tuple(sorted(rules, key=lambda rule: (rule.created_ms, rule.id)))


def may_become(rule: Rule, state: State) -> bool:
    """Whether ``rule`` may change to ``state``; its present state is always allowed."""
    return state == rule.state or state in TRANSITIONS[rule.state]


def condition_view(condition: Condition) -> dict[str, Any]:
    """The public representation of a condition: amounts are decimal strings."""
    velocity = condition.velocity
    amounts = condition.attribute == "amount" or (velocity is not None and velocity.measure == "amount")
    value: Any = condition.value
    if isinstance(value, tuple):
        value = [format_minor(each) if amounts else each for each in value]
    elif amounts:
        value = format_minor(value)
    view: dict[str, Any] = {"attribute": condition.attribute}
    if velocity is not None:
        view |= {"measure": velocity.measure, "window": velocity.window, "of": velocity.of}
        view["where"] = [condition_view(each) for each in velocity.where]
    return view | {"op": condition.op, "value": value}


def rule_view(rule: Rule) -> dict[str, Any]:
    """The public representation of a rule."""
    return {
        "id": rule.id,
        "version": rule.version,
        "name": rule.name,
        "scope": {"type": rule.scope, "id": rule.scope_id},
        "when": [condition_view(each) for each in rule.when],
        "action": rule.action,
        "reason": rule.reason,
        "state": rule.state,
        "created_at": to_text(rule.created_ms),
        "updated_at": to_text(rule.updated_ms),
    }
