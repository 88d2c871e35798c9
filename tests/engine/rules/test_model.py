"""Rules as values: their JSON, their order, and their public representation."""

from __future__ import annotations

import msgspec
import pytest

from engine.rules.model import Condition, Rule, condition_view, in_order, rule_view
from tests.support.engine.build import NOW_MS, PROGRAMME
from tests.support.engine.rules import condition, rule, velocity

CASES = [
    (
        condition("amount", "between", [100, 2_050]),
        {"attribute": "amount", "op": "between", "value": ["1.00", "20.50"]},
    ),
    (condition("amount", "gt", 100), {"attribute": "amount", "op": "gt", "value": "1.00"}),
    (
        condition("mcc", "in", ["5411", "3000-3350"]),
        {"attribute": "mcc", "op": "in", "value": ["5411", "3000-3350"]},
    ),
    (condition("mit", "eq", True), {"attribute": "mit", "op": "eq", "value": True}),
    (
        velocity("amount", "day", "gt", 5_000, condition("amount", "gte", 100), of="account"),
        {
            "attribute": "velocity",
            "measure": "amount",
            "window": "day",
            "of": "account",
            "where": [{"attribute": "amount", "op": "gte", "value": "1.00"}],
            "op": "gt",
            "value": "50.00",
        },
    ),
    (
        velocity("count", "PT10M", "gt", 3),
        {
            "attribute": "velocity",
            "measure": "count",
            "window": "PT10M",
            "of": "card",
            "where": [],
            "op": "gt",
            "value": 3,
        },
    ),
]


@pytest.mark.parametrize(("made", "view"), CASES)
def test_conditions(made: Condition, view: dict[str, object]) -> None:
    assert condition_view(made) == view
    stored = rule(1, made)
    for decode, encode in (
        (msgspec.json.decode, msgspec.json.encode),
        (msgspec.msgpack.decode, msgspec.msgpack.encode),
    ):
        again = decode(encode(stored), type=Rule)
        assert again == stored
        assert hash(again) == hash(stored)


def test_view_of_a_rule() -> None:
    made = rule(1, CASES[1][0], version=2, updated_ms=NOW_MS + 1_000)
    assert rule_view(made) == {
        "id": made.id,
        "version": 2,
        "name": "Rule 1",
        "scope": {"type": "programme", "id": PROGRAMME},
        "when": [CASES[1][1]],
        "action": "decline",
        "reason": "reason_1",
        "state": "active",
        "created_at": "2026-11-21T10:00:00.001Z",
        "updated_at": "2026-11-21T10:00:01.000Z",
    }


def test_rules_are_evaluated_in_the_order_of_their_creation() -> None:
    rules = (rule(3, created_ms=5), rule(1, created_ms=7), rule(2, created_ms=5))
    assert [each.name for each in in_order(rules)] == ["Rule 2", "Rule 3", "Rule 1"]
