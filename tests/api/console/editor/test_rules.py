"""The rule editor: a rule as fields and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from api.console.editor.rules import (
    JsonError,
    json_object,
    json_text,
    rows_show_rule,
    rule_form,
    rule_of,
)
from tests.support.api.authorization_rules import ABOVE_FIFTY, GAMBLING
from tests.support.api.authorization_rules import rule_of as body_of

RULE = body_of("card", "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e", when=[GAMBLING, ABOVE_FIFTY], action="decline")
VELOCITY = {
    "attribute": "velocity",
    "measure": "count",
    "window": "day",
    "of": "card",
    "op": "gt",
    "value": 3,
}


def test_rule_survives_its_fields_and_its_json() -> None:
    without_scope = {name: value for name, value in RULE.items() if name != "scope"}
    assert rule_of(rule_form(RULE)) == without_scope
    assert json_object(json_text(RULE)) == RULE


def test_empty_form_names_the_members_that_a_rule_needs() -> None:
    assert rule_of({}) == {"name": "", "reason": "", "when": []}
    assert rule_of({"name": "x"}, always=()) == {"name": "x", "when": []}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", '{"a": NaN}', '{"a": 1, "a": 2}', "[" * 5000, '{"a": ' + "9" * 30 + "}"]
)
def test_text_that_is_no_json_object_is_refused(text: str) -> None:
    with pytest.raises(JsonError):
        json_object(text)


@pytest.mark.parametrize(
    ("members", "shown"),
    [
        ({}, True),
        ({"id": "x"}, False),
        ({"when": "x"}, False),
        ({"when": ["x"]}, False),
        ({"when": [GAMBLING | {"window": "day"}]}, False),
        ({"when": [VELOCITY]}, True),
        ({"when": [VELOCITY | {"where": [GAMBLING]}]}, True),
        ({"when": [VELOCITY | {"where": [VELOCITY]}]}, False),
        ({"when": [VELOCITY | {"where": "x"}]}, False),
    ],
)
def test_rows_show_only_rules_without_other_members(members: dict[str, Any], shown: bool) -> None:
    assert rows_show_rule(RULE | members) is shown


@pytest.mark.parametrize("rule", [{}, {"name": 7, "when": 8}, {"when": [{"attribute": {}, "value": [[1]]}]}])
def test_malformed_rule_becomes_fields(rule: dict[str, Any]) -> None:
    assert rule_of(rule_form(rule)).keys() == {"name", "reason", "when"}
