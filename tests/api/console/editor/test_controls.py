"""Rows of controls: each kind goes to a row and back, and the API accepts the result."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import TypeAdapter

from api.cards.controls import ControlsInput
from api.console.editor.controls import KIND_FIELDS, given_rows, in_words, to_control, to_row
from engine.controls import KINDS


@pytest.mark.parametrize("kind", KINDS)
def test_example_of_each_kind_is_accepted_and_survives_its_row(kind: str) -> None:
    example = next(hint for name, _, hint in KIND_FIELDS if name == kind)
    control = to_control({"kind": kind, "value": example})
    TypeAdapter(ControlsInput).validate_python([control], strict=True)
    assert to_control(to_row(control)) == control
    assert in_words(control).endswith(example)


@pytest.mark.parametrize(
    ("row", "control"),
    [
        ({"kind": "country_deny", "value": "ie,\n fr,"}, {"kind": "country_deny", "values": ["IE", "FR"]}),
        ({"kind": "channel_allow", "value": "POS"}, {"kind": "channel_allow", "values": ["pos"]}),
        ({"kind": "per_day_cap", "value": "many"}, {"kind": "per_day_cap", "count": "many"}),
        ({"kind": "", "value": "7"}, {"values": ["7"]}),
    ],
)
def test_typed_texts_become_controls(row: dict[str, str], control: dict[str, Any]) -> None:
    assert to_control(row) == control


def test_rows_that_are_not_filled_in_are_left_out() -> None:
    form = {"add": [{"kind": "", "value": ""}, {"kind": "mcc_deny", "value": ""}]}
    assert given_rows(form, "add") == [{"kind": "mcc_deny", "value": ""}]
