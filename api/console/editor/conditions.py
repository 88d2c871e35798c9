"""Rows of the rule editor: the conditions of a rule as texts, and back.

A row has the members of a condition as the texts of its fields. A list is one text with commas; a text that
has a comma itself is in double quotes. The rows convert to conditions of the API, which checks them.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple, get_args

from api.console.editor.names import rows, text
from engine.commands import EntryMode
from engine.limits import RULE_CONDITIONS_MAX
from engine.rules.attributes import ATTRIBUTES, COUNTED, OPS, WEEKDAYS
from engine.rules.model import CALENDAR_WINDOWS, Measure, VelocityOf

LISTING: Final = frozenset({"in", "not_in", "between"})
"""Operators whose value is a list."""
OP_WORDS: Final = {
    "eq": "is",
    "ne": "is not",
    "lt": "is below",
    "lte": "is at most",
    "gt": "is above",
    "gte": "is at least",
    "between": "is between",
    "in": "is one of",
    "not_in": "is none of",
    "contains": "contains",
    "starts_with": "starts with",
}
"""Operators in the words of the editor."""
MEASURE_WORDS: Final = {
    "count": "number of purchases",
    "amount": "sum of purchases",
    "declines": "number of declines",
    "distinct_merchants": "number of merchants",
    "distinct_countries": "number of countries",
}
WINDOW_WORDS: Final = {
    "day": "today",
    "week": "this week",
    "month": "this month",
    "year": "this year",
    "lifetime": "since its first purchase",
}
_WHOLE: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)
_BOOLEANS: Final = {"true": True, "yes": True, "false": False, "no": False}
_CASES: Final[dict[str, Callable[[str], str]]] = {
    "merchant_country": str.upper,
    "merchant_currency": str.upper,
    "channel": str.lower,
    "entry_mode": str.lower,
    "network": str.lower,
    "weekday": str.lower,
}
"""Attributes whose values are written in one case."""


class AttributeField(NamedTuple):
    """An attribute in the editor."""

    name: str
    label: str
    ops: tuple[str, ...]
    hint: str
    """Examples of values."""


_LABELS_AND_HINTS: Final = {
    "amount": ("amount", "50.00"),
    "merchant_currency": ("merchant currency", "JPY, USD"),
    "merchant_country": ("merchant country", "IE, FR"),
    "mcc": ("merchant category (MCC)", "7995, 3000-3350"),
    "channel": ("channel", "pos, ecommerce, atm, moto"),
    "entry_mode": ("entry mode", ", ".join(get_args(EntryMode))),
    "acquirer_id": ("acquirer id", "400000"),
    "merchant_id": ("merchant id", "MERCHANT0000001"),
    "network": ("network", "visa, mastercard"),
    "merchant_name": ("merchant name", 'Corner Shop, "Smith, Sons"'),
    "partial_allowed": ("partial approval allowed", "true or false"),
    "mit": ("merchant-initiated", "true or false"),
    "authenticated": ("authenticated with 3-D Secure", "true or false"),
    "card_present": ("card present", "true or false"),
    "cvv2_matched": ("CVV2 matched", "true or false"),
    "first_at_merchant": ("first purchase at the merchant", "true or false"),
    "risk_score": ("risk score", "80"),
    "card_age_days": ("card age in days", "30"),
    "local_time": ("local time", "22:00, 06:00"),
    "weekday": ("weekday", ", ".join(WEEKDAYS[5:])),
    "velocity": ("velocity", "3, or 500.00 for a sum"),
}
FIELDS: Final = tuple(
    AttributeField(name, label, ATTRIBUTES[name].ops, hint)
    for name, (label, hint) in _LABELS_AND_HINTS.items()
)
"""All attributes, in the order of the editor."""
COUNTED_FIELDS: Final = tuple(each for each in FIELDS if each.name in COUNTED)
"""The attributes that restrict the purchases that a velocity counts."""
MEASURES: Final = tuple((name, MEASURE_WORDS[name]) for name in get_args(Measure))
OF: Final = tuple((name, f"of the {name}") for name in get_args(VelocityOf))

assert _LABELS_AND_HINTS.keys() == ATTRIBUTES.keys()
assert set(OP_WORDS) == {op for ops in OPS.values() for op in ops}
assert set(WINDOW_WORDS) == set(CALENDAR_WINDOWS)

_LABELS: Final = {each.name: each.label for each in FIELDS}


def empty_row() -> dict[str, Any]:
    """A row that is not filled in."""
    return {"attribute": "", "op": "", "value": ""}


def given_rows(form: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows ``name`` of a form without those that are not filled in."""
    filled = (each for each in rows(form.get(name)) if text(each, "attribute") or text(each, "value"))
    return [
        row | {"where": given_rows(row, "where")} if "where" in row else row
        for row in islice(filled, RULE_CONDITIONS_MAX + 1)
    ]


def shown_rows(value: Any) -> list[dict[str, Any]]:
    """The rows of a form as the editor shows them, those that are not filled in included."""
    return [row | {"where": rows(row.get("where"))} for row in rows(value)]


def to_condition(row: Mapping[str, Any]) -> dict[str, Any]:
    """The API's condition of a ``row``."""
    attribute, op = text(row, "attribute"), text(row, "op")
    condition: dict[str, Any] = {"attribute": attribute} if attribute else {}
    measure = text(row, "measure") or "count"
    if attribute == "velocity":
        condition |= {"measure": measure, "window": text(row, "window"), "of": text(row, "of") or "card"}
        condition["where"] = [to_condition(each) for each in given_rows(row, "where")]
    return condition | {"op": op, "value": _value(attribute, op, measure, text(row, "value"))}


def to_row(condition: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a condition of the API, which may be malformed."""
    row: dict[str, Any] = {name: _shown(condition.get(name, "")) for name in ("attribute", "op", "value")}
    if condition.get("attribute") == "velocity":
        row |= {name: _shown(condition.get(name, "")) for name in ("measure", "window", "of")}
        row["where"] = [to_row(each) for each in rows(condition.get("where"))]
    return row


def in_words(condition: Mapping[str, Any]) -> str:
    """A condition of the API as a sentence.

    >>> in_words({"attribute": "amount", "op": "gt", "value": "50.00"})
    'amount is above 50.00'
    """
    words = (
        f"{_subject(condition)} {OP_WORDS[condition['op']]} {_object(condition['op'], condition['value'])}"
    )
    where = [in_words(each) for each in condition.get("where", ())]
    return f"{words}, counting where {' and '.join(where)}" if where else words


def _subject(condition: Mapping[str, Any]) -> str:
    if condition["attribute"] != "velocity":
        return _LABELS[condition["attribute"]]
    window = condition["window"]
    when = WINDOW_WORDS.get(window, f"within {window}")
    return f"{MEASURE_WORDS[condition['measure']]} of the {condition.get('of', 'card')} {when}"


def _object(op: str, value: Any) -> str:
    if op == "between":
        return " and ".join(_shown(each) for each in value)
    return _shown(value)


def _value(attribute: str, op: str, measure: str, given: str) -> Any:
    if op in LISTING:
        return [_typed(attribute, measure, each) for each in _split(given)]
    return _typed(attribute, measure, given)


def _typed(attribute: str, measure: str, given: str) -> Any:
    """One value with its JSON type. A text that is not of the type stays a text: the API refuses it."""
    known = ATTRIBUTES.get(attribute)
    type_ = "string" if known is None else known.type
    if type_ == "integer" or (type_ == "velocity" and measure != "amount"):
        return int(given) if _WHOLE.fullmatch(given) else given
    if type_ == "boolean":
        return _BOOLEANS.get(given.lower(), given)
    return _CASES.get(attribute, str)(given)


def _split(given: str) -> list[str]:
    """The values of a list: separated by commas or line breaks, in double quotes if they have commas."""
    lines = csv.reader(given.splitlines(), skipinitialspace=True)
    return [each.strip() for line in lines for each in line if each.strip()]


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(_quoted(_shown(each)) for each in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def _quoted(value: str) -> str:
    return '"' + value.replace('"', '""') + '"' if any(mark in value for mark in ',"') else value


def to_conditions(given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The API's conditions of rows."""
    return [to_condition(row) for row in given]
