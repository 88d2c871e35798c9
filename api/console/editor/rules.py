"""The rule editor: an authorization rule as the fields of a form, or as JSON, and back.

Both views hold the same rule. The one changes to the other with a button; a JSON text with members that the
rows cannot show stays JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from api.console.editor import conditions
from api.console.editor.names import rows, text
from api.http.json_body import parse_json
from api.http.problems import Refusal

RULE_MEMBERS: Final = ("name", "scope", "when", "action", "reason", "state")
CONDITION_MEMBERS: Final = ("attribute", "op", "value")
VELOCITY_MEMBERS: Final = (*CONDITION_MEMBERS, "measure", "window", "of", "where")


_LONG_NUMBER: Final = re.compile(r"[0-9]{18}", re.ASCII)
"""More digits than any member of a rule has; JSON is written with integers of 64 bits."""


class JsonError(ValueError):
    """A text is not JSON, or not a JSON object; the message says where."""


def rule_of(form: Mapping[str, Any], *, always: tuple[str, ...] = ("name", "reason")) -> dict[str, Any]:
    """The members of the API's rule that a form holds, without its scope. Members ``always`` are present also
    if they are empty."""
    rule: dict[str, Any] = {
        name: text(form, name)
        for name in ("name", "action", "reason", "state")
        if name in always or text(form, name)
    }
    rule["when"] = conditions.to_conditions(conditions.given_rows(form, "when"))
    return rule


def rule_form(rule: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a rule of the API, which may be malformed."""
    form: dict[str, Any] = {
        name: rule[name] for name in ("name", "action", "reason", "state") if isinstance(rule.get(name), str)
    }
    return form | {"when": [conditions.to_row(each) for each in rows(rule.get("when"))]}


def json_text(value: Any) -> str:
    """``value`` as the JSON view shows it."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def json_object(given: str) -> dict[str, Any]:
    """The object of a JSON text. Raises ``JsonError``."""
    try:
        value = parse_json(given.encode())
    except Refusal as refused:
        raise JsonError(refused.detail) from None
    if not isinstance(value, dict):
        raise JsonError("The text must be a JSON object.")
    if _LONG_NUMBER.search(given):
        raise JsonError("A number is too long.")
    return value


def rows_show_rule(rule: Mapping[str, Any]) -> bool:
    """Whether the rows show every member of ``rule``."""
    return set(rule) <= set(RULE_MEMBERS) and rows_show_conditions(rule.get("when", []))


def rows_show_conditions(value: Any) -> bool:
    """Whether the rows show every member of the conditions ``value``."""
    return isinstance(value, list) and all(_shows_condition(each) for each in value)


def _shows_condition(condition: Any) -> bool:
    if not isinstance(condition, dict):
        return False
    velocity = condition.get("attribute") == "velocity"
    where = condition.get("where", []) if velocity else []
    return (
        set(condition) <= set(VELOCITY_MEMBERS if velocity else CONDITION_MEMBERS)
        and isinstance(where, list)
        and all(_shows_condition(each) and each.get("attribute") != "velocity" for each in where)
    )
