"""The change of a back-test as the fields of a form, or as JSON, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from api.console.editor import controls
from api.console.editor.names import group, rows, text, texts
from api.console.editor.rules import RULE_MEMBERS, rows_show_conditions, rule_form, rule_of
from engine.limits import BACKTEST_RULES_MAX

CHANGE_MEMBERS: Final = ("controls", "add_rules", "remove_rules")


def change_of(form: Mapping[str, Any]) -> dict[str, Any]:
    """The API's change of the fields of a form."""
    change: dict[str, Any] = {}
    given = group(form, "controls")
    added = [controls.to_control(row) for row in controls.given_rows(given, "add")]
    members = {"remove": texts(given, "remove"), "add": added}
    if any(members.values()):
        change["controls"] = {name: value for name, value in members.items() if value}
    rules = [_added_of(row) for row in added_rows(form)]
    if rules:
        change["add_rules"] = rules
    if texts(form, "remove_rules"):
        change["remove_rules"] = texts(form, "remove_rules")
    return change


def change_form(change: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a change of the API, which may be malformed."""
    given = group(change, "controls")
    added = change.get("add_rules")
    return {
        "controls": {
            "remove": texts(given, "remove"),
            "add": [controls.to_row(each) for each in rows(given.get("add"))],
        },
        "add_rules": [_added_form(each) for each in added] if isinstance(added, list) else [],
        "remove_rules": texts(change, "remove_rules"),
    }


def added_rows(form: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rules that a form adds, without those that are not filled in."""
    return [row for row in rows(form.get("add_rules"))[: BACKTEST_RULES_MAX + 1] if _filled(row)]


def _filled(row: Mapping[str, Any]) -> bool:
    named = any(text(row, name) for name in ("version", "name", "reason"))
    return named or any(text(each, "attribute") or text(each, "value") for each in rows(row.get("when")))


def rows_show_change(change: Mapping[str, Any]) -> bool:
    """Whether the fields show every member of ``change``."""
    given, added = change.get("controls", {}), change.get("add_rules", [])
    return (
        set(change) <= set(CHANGE_MEMBERS)
        and isinstance(given, dict)
        and set(given) <= {"remove", "add"}
        and isinstance(added, list)
        and all(_shows_added(each) for each in added)
    )


def _shows_added(rule: Any) -> bool:
    if isinstance(rule, str):
        return True
    # A rule of a change has the scope of the back-test, and its state has no effect.
    members = set(RULE_MEMBERS) - {"scope", "state"}
    return isinstance(rule, dict) and set(rule) <= members and rows_show_conditions(rule.get("when", []))


def _added_of(row: Mapping[str, Any]) -> Any:
    return text(row, "version") or rule_of(row)


def _added_form(rule: Any) -> dict[str, Any]:
    return rule_form(rule) if isinstance(rule, Mapping) else {"version": str(rule)}
