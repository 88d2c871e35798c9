"""The change of a back-test as fields and as JSON."""

from __future__ import annotations

from typing import Any

import pytest

from api.console.editor.changes import change_form, change_of, rows_show_change
from tests.support.api.authorization_rules import GAMBLING

ID = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
CHANGE = {
    "controls": {"remove": ["per_txn_cap"], "add": [{"kind": "per_day_cap", "count": 3}]},
    "add_rules": [f"{ID}@2", {"name": "No bets", "reason": "no_bets", "when": [GAMBLING]}],
    "remove_rules": [ID],
}


@pytest.mark.parametrize(
    "change",
    [CHANGE, {}, *({name: value} for name, value in CHANGE.items()), {"controls": {"remove": ["x"]}}],
)
def test_change_survives_its_fields(change: dict[str, Any]) -> None:
    assert rows_show_change(change)
    assert change_of(change_form(change)) == change


def test_rules_that_are_not_filled_in_are_left_out() -> None:
    empty = {
        "version": "",
        "name": "",
        "reason": "",
        "action": "decline",
        "when": [{"attribute": "", "op": "eq"}],
    }
    assert change_of({"add_rules": [empty, {"version": f"{ID}@1"}]}) == {"add_rules": [f"{ID}@1"]}


@pytest.mark.parametrize(
    "change",
    [
        {"x": 1},
        {"controls": []},
        {"controls": {"x": 1}},
        {"add_rules": "x"},
        {"add_rules": [7]},
        {"add_rules": [{"state": "draft"}]},
        {"add_rules": [{"when": [{"x": 1}]}]},
    ],
)
def test_fields_show_only_changes_without_other_members(change: dict[str, Any]) -> None:
    assert not rows_show_change(change)
    change_form(change)
