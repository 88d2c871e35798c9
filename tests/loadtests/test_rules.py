"""The measurement of authorization rules: its variants decide as it says."""

from __future__ import annotations

from loadtests.rules import RULES, measure, variants


def test_variants_are_measured_against_cards_without_rules() -> None:
    measured = variants()
    rules = [each._context.rules for each in measured]
    assert [len(each.active) for each in rules] == [0, RULES, RULES]
    assert len(rules[2].velocities) == RULES
    results = measure(measured, 0.02)
    assert [name for name, _, _ in results] == [each.name for each in measured]
    assert results[0][2] == 0
    assert all(cost > 0 for _, cost, _ in results)
