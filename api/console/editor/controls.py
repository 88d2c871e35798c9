"""Rows of controls: the kind of a control and its limit as texts, and back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from api.console.editor.names import rows, text
from engine.controls import AMOUNT_KINDS, KINDS
from engine.limits import CONTROLS_MAX

WORDS: Final = {
    "mcc_allow": "only these merchant categories",
    "mcc_deny": "none of these merchant categories",
    "country_allow": "only these merchant countries",
    "country_deny": "none of these merchant countries",
    "channel_allow": "only these channels",
    "channel_deny": "none of these channels",
    "per_txn_cap": "largest amount of one purchase",
    "per_day_cap": "most purchases in a day",
    "per_day_amount_cap": "largest sum of a day",
}
"""The kinds of controls in the words of the editor."""
HINTS: Final = {
    "mcc": "7995, 6051",
    "country": "IE, FR",
    "channel": "pos, ecommerce, atm, moto",
    "amount": "100.00",
    "count": "5",
}
_COUNT: Final = re.compile(r"-?[0-9]{1,15}", re.ASCII)

assert WORDS.keys() == KINDS.keys()


def hint(kind: str) -> str:
    """An example of the limit of ``kind``."""
    if kind in AMOUNT_KINDS:
        return HINTS["amount"]
    return HINTS["count"] if kind == "per_day_cap" else HINTS[kind.partition("_")[0]]


REMOVABLE: Final = tuple((kind, f"{kind}: {words}") for kind, words in WORDS.items())
"""Kinds with their words, for choosing those to be removed."""
KIND_FIELDS: Final = tuple((kind, words, hint(kind)) for kind, words in WORDS.items())
"""Kind, words and example, in the order of evaluation."""


def given_rows(form: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The rows ``name`` of a form without those that are not filled in."""
    return [
        row for row in rows(form.get(name))[: CONTROLS_MAX + 1] if text(row, "kind") or text(row, "value")
    ]


def to_control(row: Mapping[str, Any]) -> dict[str, Any]:
    """The API's control of a ``row``."""
    kind, value = text(row, "kind"), text(row, "value")
    control: dict[str, Any] = {"kind": kind} if kind else {}
    if kind in AMOUNT_KINDS:
        return control | {"amount": value}
    if kind == "per_day_cap":
        return control | {"count": int(value) if _COUNT.fullmatch(value) else value}
    values = [each.strip() for each in value.replace("\n", ",").split(",") if each.strip()]
    if kind.startswith("country"):
        values = [each.upper() for each in values]
    elif kind.startswith("channel"):
        values = [each.lower() for each in values]
    return control | {"values": values}


def to_row(control: Mapping[str, Any]) -> dict[str, Any]:
    """The row of a control of the API, which may be malformed."""
    value = next((control[name] for name in ("values", "amount", "count") if name in control), "")
    shown = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return {"kind": str(control.get("kind", "")), "value": shown}


def in_words(control: Mapping[str, Any]) -> str:
    """A control of the API as words with its limit."""
    return f"{WORDS[control['kind']]}: {to_row(control)['value'] or 'none'}"
