"""Conditions in requests: every attribute with its operators, their engine form, and their faults."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from api.authorization_rules.conditions import ConditionInput, CountedCondition
from api.authorization_rules.inputs import RuleInput
from api.http.problems import Refusal
from api.http.validation import validated
from engine.limits import RULE_CONDITIONS_MAX, RULE_VALUES_MAX
from engine.rules.attributes import ATTRIBUTES, COUNTED
from engine.rules.model import Condition, Velocity, condition_view

ID = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
THREE_IN_TEN_MINUTES = {
    "attribute": "velocity",
    "measure": "count",
    "window": "PT10M",
    "where": [],
    "of": "card",
    "op": "gt",
    "value": 3,
}


def rule_of(*conditions: Any, **members: Any) -> dict[str, Any]:
    """The body of a rule of a programme."""
    scope = {"type": "programme", "id": ID}
    return {"name": "Rule", "scope": scope, "when": list(conditions), "reason": "our_reason"} | members


def condition_of(given: Any) -> Condition:
    """The engine's condition of ``given``."""
    (condition,) = validated(RuleInput, rule_of(given)).when
    return condition.condition()


def faults(body: Any) -> list[tuple[str, str]]:
    """The pointers and codes of the refusal of ``body``."""
    with pytest.raises(Refusal) as refused:
        validated(RuleInput, body)
    return [(error.pointer, error.code) for error in refused.value.errors]


def operators(union: Any) -> dict[str, set[str]]:
    """The operators by attribute that the models of ``union`` accept."""
    models = get_args(get_args(union)[0])
    return {
        attribute: set(get_args(model.model_fields["op"].annotation))
        for model in models
        for attribute in get_args(model.model_fields["attribute"].annotation)
    }


def test_models_have_the_attributes_and_operators_of_the_engine() -> None:
    assert operators(ConditionInput) == {name: set(each.ops) for name, each in ATTRIBUTES.items()}
    assert operators(CountedCondition) == {name: set(ATTRIBUTES[name].ops) for name in COUNTED}


@pytest.mark.parametrize(
    ("attribute", "op", "value", "stored"),
    [
        ("amount", "gt", "12.50", 1250),
        ("amount", "between", ["0.00", "20.00"], (0, 2000)),
        ("mcc", "eq", "7995", "7995"),
        ("mcc", "in", ["7995", "3000-3350"], ("7995", "3000-3350")),
        ("merchant_country", "not_in", ["IE", "GB"], ("IE", "GB")),
        ("merchant_currency", "ne", "JPY", "JPY"),
        ("channel", "in", ["ecommerce", "moto"], ("ecommerce", "moto")),
        ("entry_mode", "eq", "credential_on_file", "credential_on_file"),
        ("network", "eq", "mastercard", "mastercard"),
        ("acquirer_id", "eq", "400000", "400000"),
        ("merchant_id", "in", ["SHOP 1", "SHOP 2"], ("SHOP 1", "SHOP 2")),
        ("merchant_name", "starts_with", "Lucky", "Lucky"),
        ("merchant_name", "in", ["Lucky Casino"], ("Lucky Casino",)),
        ("partial_allowed", "eq", False, False),
        ("mit", "eq", True, True),
        ("authenticated", "eq", False, False),
        ("card_present", "eq", True, True),
        ("cvv2_matched", "eq", True, True),
        ("first_at_merchant", "eq", True, True),
        ("risk_score", "between", [50, 79], (50, 79)),
        ("card_age_days", "lt", 7, 7),
        ("local_time", "between", ["22:00", "06:30"], ("22:00", "06:30")),
        ("weekday", "in", ["saturday", "sunday"], ("saturday", "sunday")),
        ("weekday", "between", ["friday", "monday"], ("friday", "monday")),
    ],
)
def test_condition_becomes_that_of_the_engine_and_is_shown_as_given(
    attribute: str, op: Any, value: Any, stored: Any
) -> None:
    given = {"attribute": attribute, "op": op, "value": value}
    condition = condition_of(given)
    assert condition == Condition(attribute, op, stored)
    assert condition_view(condition) == given


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"measure": "amount", "op": "gte", "value": "250.00", "of": "account"},
        {"measure": "amount", "op": "between", "value": ["1.00", "2.00"]},
        {"measure": "declines", "window": "day"},
        {"measure": "distinct_merchants", "window": "P90D"},
        {"measure": "distinct_countries", "window": "lifetime"},
        {"where": [{"attribute": "amount", "op": "lte", "value": "5.00"}]},
        {"where": [{"attribute": "mcc", "op": "in", "value": ["4111-4131"]}]},
        {"window": "PT10S"},
        {"window": "P1DT12H"},
    ],
)
def test_velocity_becomes_that_of_the_engine_and_is_shown_as_given(change: dict[str, Any]) -> None:
    given = THREE_IN_TEN_MINUTES | change
    assert condition_view(condition_of(given)) == given


def test_velocity_counts_all_purchases_of_the_card_by_default() -> None:
    given = {name: THREE_IN_TEN_MINUTES[name] for name in ("attribute", "measure", "window", "op", "value")}
    assert condition_of(given) == Condition("velocity", "gt", 3, Velocity("count", "PT10M"))


@pytest.mark.parametrize(
    ("condition", "pointer", "code"),
    [
        ({"attribute": "iban", "op": "eq", "value": "x"}, "/attribute", "not_allowed"),
        ({"op": "eq", "value": "x"}, "/attribute", "missing"),
        ({"attribute": "mcc", "value": "7995"}, "/op", "missing"),
        ({"attribute": "mcc", "op": "eq"}, "/value", "missing"),
        ({"attribute": "mcc", "op": "gt", "value": "7995"}, "/op", "not_allowed"),
        ({"attribute": "mcc", "op": "eq", "value": 7995}, "/value", "type"),
        ({"attribute": "mcc", "op": "eq", "value": "799"}, "/value", "format"),
        ({"attribute": "mcc", "op": "eq", "value": "3000-3350"}, "/value", "format"),
        ({"attribute": "mcc", "op": "in", "value": ["3350-3000"]}, "/value/0", "range"),
        ({"attribute": "mcc", "op": "eq", "value": ["7995"]}, "/value", "type"),
        ({"attribute": "mcc", "op": "in", "value": "7995"}, "/value", "type"),
        ({"attribute": "mcc", "op": "in", "value": []}, "/value", "length"),
        ({"attribute": "mcc", "op": "in", "value": ["7995"] * (RULE_VALUES_MAX + 1)}, "/value", "length"),
        ({"attribute": "mcc", "op": "in", "value": ["7995", 1]}, "/value/1", "type"),
        ({"attribute": "amount", "op": "gt", "value": 12.5}, "/value", "type"),
        ({"attribute": "amount", "op": "gt", "value": "-1.00"}, "/value", "format"),
        ({"attribute": "amount", "op": "in", "value": ["1.00"]}, "/op", "not_allowed"),
        ({"attribute": "amount", "op": "between", "value": ["2.00"]}, "/value", "length"),
        ({"attribute": "amount", "op": "between", "value": ["2.00", "10.00", "30.00"]}, "/value", "length"),
        ({"attribute": "amount", "op": "between", "value": ["10.00", "9.00"]}, "/value", "range"),
        ({"attribute": "merchant_country", "op": "eq", "value": "XX"}, "/value", "not_allowed"),
        ({"attribute": "merchant_currency", "op": "eq", "value": "XAU"}, "/value", "not_allowed"),
        ({"attribute": "channel", "op": "eq", "value": "web"}, "/value", "not_allowed"),
        ({"attribute": "merchant_name", "op": "contains", "value": "*.*"}, "/value", "format"),
        ({"attribute": "merchant_name", "op": "contains", "value": ""}, "/value", "length"),
        ({"attribute": "merchant_id", "op": "eq", "value": "SHOP "}, "/value", "format"),
        ({"attribute": "merchant_id", "op": "eq", "value": "S" * 16}, "/value", "length"),
        ({"attribute": "mit", "op": "eq", "value": "true"}, "/value", "type"),
        ({"attribute": "mit", "op": "eq", "value": 1}, "/value", "type"),
        ({"attribute": "risk_score", "op": "gt", "value": 101}, "/value", "range"),
        ({"attribute": "risk_score", "op": "gt", "value": True}, "/value", "type"),
        ({"attribute": "card_age_days", "op": "lt", "value": -1}, "/value", "range"),
        ({"attribute": "local_time", "op": "between", "value": ["22:00", "24:00"]}, "/value/1", "format"),
        ({"attribute": "weekday", "op": "in", "value": ["saturday", "someday"]}, "/value/1", "not_allowed"),
        ({"attribute": "mit", "op": "eq", "value": True, "note": 1}, "/note", "unknown_field"),
        (THREE_IN_TEN_MINUTES | {"window": "PT9S"}, "/window", "range"),
        (THREE_IN_TEN_MINUTES | {"window": "P91D"}, "/window", "range"),
        (THREE_IN_TEN_MINUTES | {"window": "P1M"}, "/window", "format"),
        (THREE_IN_TEN_MINUTES | {"window": "P"}, "/window", "range"),
        (THREE_IN_TEN_MINUTES | {"window": "fortnight"}, "/window", "format"),
        (THREE_IN_TEN_MINUTES | {"measure": "average"}, "/measure", "not_allowed"),
        (THREE_IN_TEN_MINUTES | {"value": "3.00"}, "/value", "type"),
        (THREE_IN_TEN_MINUTES | {"measure": "amount"}, "/value", "type"),
        (THREE_IN_TEN_MINUTES | {"value": -1}, "/value", "range"),
        (THREE_IN_TEN_MINUTES | {"of": "cardholder"}, "/of", "not_allowed"),
        (
            THREE_IN_TEN_MINUTES | {"where": [{"attribute": "risk_score", "op": "eq", "value": 1}]},
            "/where/0/attribute",
            "not_allowed",
        ),
        (THREE_IN_TEN_MINUTES | {"where": [THREE_IN_TEN_MINUTES]}, "/where/0/attribute", "not_allowed"),
        (
            THREE_IN_TEN_MINUTES | {"where": [{"attribute": "mcc", "op": "eq", "value": ["7995"]}]},
            "/where/0/value",
            "type",
        ),
        ("mcc = 7995", "", "type"),
    ],
)
def test_fault_of_a_condition_has_its_pointer(condition: Any, pointer: str, code: str) -> None:
    valid = {"attribute": "mit", "op": "eq", "value": True}
    assert faults(rule_of(valid, condition)) == [(f"/when/1{pointer}", code)]


@pytest.mark.parametrize(
    ("members", "pointer", "code"),
    [
        ({"when": []}, "/when", "length"),
        ({"when": [THREE_IN_TEN_MINUTES] * (RULE_CONDITIONS_MAX + 1)}, "/when", "length"),
        ({"when": {}}, "/when", "type"),
        ({"name": ""}, "/name", "length"),
        ({"name": "x" * 101}, "/name", "length"),
        ({"reason": "Too Many"}, "/reason", "format"),
        ({"reason": "no"}, "/reason", "format"),
        ({"reason": "a" * 41}, "/reason", "format"),
        ({"action": "block"}, "/action", "not_allowed"),
        ({"state": "retired"}, "/state", "not_allowed"),
        ({"scope": {"type": "tenant", "id": ID}}, "/scope/type", "not_allowed"),
        ({"scope": {"type": "card", "id": "card"}}, "/scope/id", "format"),
        ({"scope": {"type": "card"}}, "/scope/id", "missing"),
        ({"version": 2}, "/version", "unknown_field"),
    ],
)
def test_fault_of_a_rule_has_its_pointer(members: dict[str, Any], pointer: str, code: str) -> None:
    assert faults(rule_of(THREE_IN_TEN_MINUTES, **members)) == [(pointer, code)]


def test_every_fault_is_named() -> None:
    wrong = {"attribute": "mcc", "op": "between", "value": 1}
    assert faults(rule_of(wrong, wrong)) == [
        ("/when/0/op", "not_allowed"),
        ("/when/0/value", "type"),
        ("/when/1/op", "not_allowed"),
        ("/when/1/value", "type"),
    ]
