"""Parts of JSON Schema (draft 2020-12) for the catalogue of event types.

Listed members are always present unless they are optional. Receivers must accept members that are not listed,
because later versions may add some.
"""

from __future__ import annotations

from typing import Any, Final

from engine.controls import KINDS

Schema = dict[str, Any]

ID: Final[Schema] = {"type": "string", "format": "uuid"}
INSTANT: Final[Schema] = {"type": "string", "format": "date-time"}
AMOUNT: Final[Schema] = {"type": "string", "pattern": r"^(0|[1-9][0-9]*)\.[0-9]{2}$"}
SIGNED_AMOUNT: Final[Schema] = {"type": "string", "pattern": r"^-?(0|[1-9][0-9]*)\.[0-9]{2}$"}
MERCHANT_AMOUNT: Final[Schema] = {"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.[0-9]{2,3})?$"}
MERCHANT_CURRENCY: Final[Schema] = {"type": "string", "pattern": "^[A-Z]{3}$"}
CONVERSION_RATE: Final[Schema] = {"type": "string", "pattern": r"^[0-9]{1,7}(\.[0-9]{1,7})?$"}
TEXT: Final[Schema] = {"type": "string"}
MCC: Final[Schema] = {"type": "string", "pattern": "^[0-9]{4}$"}
COUNTRY: Final[Schema] = {"type": "string", "pattern": "^[A-Z]{2}$"}


def choice(*values: str) -> Schema:
    """One of ``values``."""
    return {"type": "string", "enum": list(values)}


def array(items: Schema) -> Schema:
    """An array of ``items``, possibly empty."""
    return {"type": "array", "items": items}


def number(least: int, most: int | None = None) -> Schema:
    """An integer in a range."""
    return {"type": "integer", "minimum": least} | ({} if most is None else {"maximum": most})


def or_null(schema: Schema) -> Schema:
    """``schema``, or null."""
    if "enum" in schema:
        return schema | {"type": [schema["type"], "null"], "enum": [*schema["enum"], None]}
    return schema | {"type": [schema["type"], "null"]}


def described(schema: Schema, description: str) -> Schema:
    """``schema`` with a description."""
    return schema | {"description": description}


def record(members: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    """An object with ``members``, and with ``optional`` members."""
    return {
        "type": "object",
        "properties": members | (optional or {}),
        "required": list(members),
    }


METADATA: Final[Schema] = {"type": "object", "additionalProperties": TEXT}
CURRENCY: Final = choice("EUR", "GBP", "USD")
MERCHANT: Final = record({"name": TEXT, "country": or_null(COUNTRY)})
CONTROL: Final = record(
    {
        "kind": choice(*KINDS),
    },
    {"values": array(TEXT), "amount": AMOUNT, "count": number(0)},
)
