"""Authorization rules in headroom: the ranges of amounts that they decline, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from engine.controls import PerTxnCap
from engine.decision.headroom import Binding, Headroom, Limit, headroom
from engine.instant import DAY_MS
from engine.rules.evaluate import rule_set
from engine.rules.model import Condition, Rule
from engine.rules.observed import Observed, RulesInForce
from tests.support.engine.build import NOW_MS, inputs
from tests.support.engine.build import authorize as spend
from tests.support.engine.rules import condition, rule, velocity

MIDNIGHT_MS = NOW_MS + 14 * 3_600_000


def with_rules(*rules: Rule, observed: tuple[Observed, ...] = (), **parts: Any) -> Headroom:
    active = rule_set(rules)
    in_force = RulesInForce(active.versions, (), observed, NOW_MS)
    return headroom(spend(), inputs(rules_in_force=in_force, **parts), active)


def label(number: int) -> str:
    return f"rule:{rule(number).id}@1"


@pytest.mark.parametrize(
    ("when", "max_minor"),
    [
        ((condition("amount", "gt", 3_000),), 3_000),
        ((condition("amount", "gte", 3_000),), 2_999),
        ((condition("amount", "between", [8_000, 20_000]),), 7_999),
        ((condition("amount", "between", [2_000, 8_000]),), 10_000),
        ((condition("amount", "lt", 3_000),), 10_000),
        ((condition("amount", "lt", 10_001),), 0),
        ((condition("amount", "eq", 10_000),), 9_999),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["5411"])), 3_000),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["7995"])), 10_000),
        ((condition("mcc", "in", ["5411"]),), 0),
        ((condition("risk_score", "gte", 15), condition("amount", "gt", 3_000)), 10_000),
    ],
)
def test_rules_decline_ranges_of_amounts(when: tuple[Any, ...], max_minor: int) -> None:
    found = with_rules(rule(1, *when))
    assert found.max_minor == max_minor
    expected = "funds" if max_minor == 10_000 else label(1)
    assert (found.binding.rule if found.binding else None) == expected


def test_adjacent_rules_decline_together() -> None:
    ranges = ([9_000, 10_000], [8_000, 8_999], [2_000, 3_000], [7_000, 8_500])
    found = with_rules(
        *(rule(number, condition("amount", "between", each)) for number, each in enumerate(ranges))
    )
    assert found.max_minor == 6_999
    assert found.binding == Binding(
        label(3), "rule_declined", "amount between 70.00, 85.00", "70.00", None, "reason_3"
    )


@pytest.mark.parametrize(
    ("measured", "observed", "max_minor", "binding"),
    [
        (velocity("amount", "month", "gt", 5_000), Observed(1_500), 3_500, (5_000, 1_500, "amount")),
        (velocity("amount", "PT1H", "gte", 5_000), Observed(1_500), 3_499, (4_999, 1_500, "amount")),
        (velocity("count", "PT10M", "gt", 3), Observed(3), 0, (3, 3, "count")),
        (velocity("count", "PT10M", "gt", 3), Observed(2), 10_000, None),
        (velocity("distinct_merchants", "day", "gt", 2), Observed(2), 0, (2, 2, "count")),
        (velocity("distinct_merchants", "day", "gt", 2), Observed(2, True), 10_000, None),
        (
            velocity("count", "day", "gt", 1, condition("amount", "gte", 4_000)),
            Observed(1),
            3_999,
            (1, 1, "count"),
        ),
        (
            velocity("amount", "day", "gt", 5_000, condition("mcc", "in", ["7995"])),
            Observed(5_000),
            10_000,
            None,
        ),
    ],
)
def test_velocity_binds(
    measured: Condition, observed: Observed, max_minor: int, binding: tuple[Any, ...] | None
) -> None:
    found = with_rules(rule(1, measured), observed=(observed,))
    assert found.max_minor == max_minor
    if binding is None:
        assert found.binding is not None
        assert found.binding.rule == "funds"
    else:
        limit, used, unit = binding
        assert found.binding == Binding(label(1), "rule_declined", limit, used, unit, "reason_1")


@pytest.mark.parametrize(
    ("window", "days"),
    [("day", 1), ("week", 2), ("month", 10), ("year", 41), ("lifetime", None), ("P7D", None)],
)
def test_limits_have_the_end_of_their_window(window: str, days: int | None) -> None:
    """The present day is Saturday, 2026-11-21."""
    measured = velocity("amount", window, "gt", 5_000)
    found = with_rules(rule(1, measured), observed=(Observed(700),), controls=(PerTxnCap(9_000),))
    resets_ms = None if days is None else MIDNIGHT_MS + (days - 1) * DAY_MS
    assert found.limits == (
        Limit("per_txn_cap", 9_000),
        Limit(label(1), 5_000, 700, "amount", resets_ms),
        Limit("funds", 10_000, 0),
    )


@pytest.mark.parametrize(
    ("when", "limits"),
    [
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["7995"])), 0),
        ((condition("amount", "gt", 3_000), condition("mcc", "in", ["5411"])), 1),
        ((condition("amount", "lt", 3_000),), 0),
        ((condition("amount", "between", [1, 2]),), 0),
        ((condition("risk_score", "gt", 50),), 0),
        ((velocity("declines", "day", "gt", 3),), 0),
        ((velocity("count", "day", "gt", 3, condition("channel", "eq", "moto")),), 0),
        ((velocity("count", "day", "gt", 3, condition("channel", "eq", "pos")),), 1),
    ],
)
def test_limits_are_those_that_the_purchase_uses(when: tuple[Condition, ...], limits: int) -> None:
    found = with_rules(rule(1, *when), observed=(Observed(1),))
    assert sum(limit.rule == label(1) for limit in found.limits) == limits


def test_demanded_authentication_has_its_reason() -> None:
    demanding = rule(1, condition("amount", "gt", 3_000), action="require_authentication")
    active = rule_set((demanding,))
    seen = inputs(rules_in_force=RulesInForce(active.versions))
    found = headroom(spend(channel="ecommerce"), seen, active)
    assert (found.max_minor, found.binding and found.binding.reason) == (3_000, "authentication_required")
    assert headroom(spend(channel="pos"), seen, active).max_minor == 10_000
