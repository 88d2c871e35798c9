"""Rows of the rule editor: each shape of condition goes to a row and back, and the API accepts the result."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from api.authorization_rules.conditions import ConditionsInput
from api.console.editor.conditions import (
    FIELDS,
    OP_WORDS,
    given_rows,
    in_words,
    to_condition,
    to_conditions,
    to_row,
)
from engine.rules.attributes import ATTRIBUTES

WHERE = [{"attribute": "mcc", "op": "in", "value": ["5411", "7800-7802"]}]
VELOCITY = {"attribute": "velocity", "measure": "count", "window": "PT10M", "of": "account", "where": WHERE}
CONDITIONS: list[tuple[dict[str, Any], str]] = [
    ({"attribute": "amount", "op": "gt", "value": "50.00"}, "amount is above 50.00"),
    ({"attribute": "amount", "op": "between", "value": ["1.00", "2.00"]}, "amount is between 1.00 and 2.00"),
    (
        {"attribute": "mcc", "op": "not_in", "value": ["7995", "3000-3350"]},
        "merchant category (MCC) is none of 7995, 3000-3350",
    ),
    ({"attribute": "merchant_country", "op": "ne", "value": "IE"}, "merchant country is not IE"),
    (
        {"attribute": "merchant_name", "op": "in", "value": ["Smith, Sons", 'The "Cup"', "Shop"]},
        'merchant name is one of "Smith, Sons", "The ""Cup""", Shop',
    ),
    ({"attribute": "mit", "op": "eq", "value": True}, "merchant-initiated is true"),
    ({"attribute": "risk_score", "op": "gte", "value": 80}, "risk score is at least 80"),
    ({"attribute": "card_age_days", "op": "between", "value": [0, 3]}, "card age in days is between 0 and 3"),
    (
        {"attribute": "local_time", "op": "between", "value": ["22:00", "06:00"]},
        "local time is between 22:00 and 06:00",
    ),
    ({"attribute": "weekday", "op": "in", "value": ["saturday"]}, "weekday is one of saturday"),
    (
        VELOCITY | {"op": "gt", "value": 3},
        "number of purchases of the account within PT10M is above 3, counting where merchant category (MCC)"
        " is one of 5411, 7800-7802",
    ),
    (
        VELOCITY
        | {"measure": "amount", "window": "day", "of": "card", "where": [], "op": "gte", "value": "9.50"},
        "sum of purchases of the card today is at least 9.50",
    ),
]


@pytest.mark.parametrize(("condition", "words"), CONDITIONS, ids=lambda each: "")
def test_condition_survives_its_row(condition: dict[str, Any], words: str) -> None:
    row = to_row(condition)
    assert all(isinstance(value, str) for name, value in row.items() if name != "where")
    assert to_condition(row) == condition
    assert in_words(condition) == words


def test_rows_make_conditions_that_the_api_accepts() -> None:
    made = to_conditions(to_row(condition) for condition, _ in CONDITIONS)
    TypeAdapter(ConditionsInput).validate_python(made, strict=True)


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ({"attribute": "merchant_country", "op": "in", "value": " ie ,\nfr,"}, ["IE", "FR"]),
        ({"attribute": "weekday", "op": "eq", "value": "Sunday"}, "sunday"),
        ({"attribute": "mit", "op": "eq", "value": "Yes"}, True),
        ({"attribute": "mit", "op": "eq", "value": "perhaps"}, "perhaps"),
        ({"attribute": "risk_score", "op": "gt", "value": "high"}, "high"),
        ({"attribute": "risk_score", "op": "gt", "value": "9" * 16}, "9" * 16),
        ({"attribute": "unknown", "op": "in", "value": ""}, []),
        ({"attribute": "merchant_name", "op": "eq", "value": "Smith, Sons"}, "Smith, Sons"),
    ],
)
def test_typed_texts_become_values(row: dict[str, Any], value: Any) -> None:
    assert to_condition(row)["value"] == value


def test_rows_without_attribute_and_value_are_left_out() -> None:
    form = {
        "when": [
            {"attribute": "", "op": "eq", "value": " "},
            {
                "attribute": "velocity",
                "value": "",
                "where": [{"attribute": "", "value": ""}, {"attribute": "mcc"}],
            },
            {"attribute": "", "value": "7"},
        ]
    }
    first, second = given_rows(form, "when")
    assert (first["where"], second["value"]) == ([{"attribute": "mcc"}], "7")
    assert to_condition(second) == {"op": "", "value": "7"}


def test_editor_lists_every_attribute_with_its_operators() -> None:
    assert {each.name: each.ops for each in FIELDS} == {name: each.ops for name, each in ATTRIBUTES.items()}
    assert len({each.label for each in FIELDS}) == len(FIELDS)
    assert len(set(OP_WORDS.values())) == len(OP_WORDS)
