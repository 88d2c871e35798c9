"""The description's section ``webhooks`` (OpenAPI 3.1): one entry for each type of the event catalogue."""

from __future__ import annotations

from typing import Any, Final

from api.docs.examples import sample
from engine.limits import SIGNATURE_TOLERANCE_SECONDS, WEBHOOK_TIMEOUT_SECONDS
from engine.webhooks.catalogue import CATALOGUE, EventType
from engine.webhooks.schemas import CONVERSION_RATE, ID, INSTANT, MERCHANT_AMOUNT, MERCHANT_CURRENCY
from engine.webhooks.signature import HEADER

_FORMATS: Final = {
    "uuid": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
    "date-time": "2026-11-21T10:15:30.123Z",
}
_PATTERNS: Final = {
    "^[0-9]{4}$": "5411",
    "^[A-Z]{2}$": "IE",
    "^[0-9]{6,8}$": "400000",
    "^([A-Z]{3}|[0-9]{3})$": "EUR",
    MERCHANT_AMOUNT["pattern"]: "6900",
    MERCHANT_CURRENCY["pattern"]: "JPY",
    CONVERSION_RATE["pattern"]: "0.00616",
}
_AMOUNT: Final = "42.50"
_SIGNATURE: Final = {
    "name": HEADER,
    "in": "header",
    "required": True,
    "description": "`t` is the Unix time of signing. Each `v1` is the HMAC-SHA256 of `t`, a full stop and"
    " the raw body, keyed by the endpoint's whole secret, in lower-case hexadecimal. During a rotation"
    " there are two; one that matches is enough. Refuse deliveries signed more than"
    f" {SIGNATURE_TOLERANCE_SECONDS} seconds ago.",
    "schema": {"type": "string", "pattern": "^t=[0-9]{1,12}(,v1=[0-9a-f]{64})+$"},
    "example": f"t=1795256130,v1={'5257a8'.ljust(64, '0')}",
}
_ANSWERS: Final = {
    "2XX": {
        "description": f"The delivery has succeeded. Answer within {WEBHOOK_TIMEOUT_SECONDS} seconds; the"
        " body is ignored."
    },
    "default": {
        "description": "The attempt has failed: any other status, redirects included, and no answer in time."
        " There are at most six attempts: at once, then 1 minute, 5 minutes, 30 minutes, 2 hours and 24 hours"
        " after the first."
    },
}


def webhooks() -> dict[str, Any]:
    """The ``webhooks`` section, by event type."""
    return {entry.type: {"post": _delivery(entry)} for entry in CATALOGUE.values()}


def _delivery(entry: EventType) -> dict[str, Any]:
    planned = "" if entry.status == "live" else " Planned: not delivered yet."
    about = f"{entry.description}{planned} The same event may arrive more than once and in any order."
    event = _event(entry)
    return {
        "operationId": "receive_" + entry.type.replace(".", "_"),
        "tags": ["Webhooks"],
        "summary": entry.type,
        "description": about,
        "security": [],
        "parameters": [_SIGNATURE],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": event,
                    "examples": {"example": {"value": _example(event)}},
                }
            },
        },
        "responses": _ANSWERS,
    }


def _event(entry: EventType) -> dict[str, Any]:
    """The schema of a delivery's body. New members may be added; listed members are not removed."""
    return {
        "type": "object",
        "properties": {
            "id": ID | {"description": "The event's id, the same in every delivery."},
            "type": {"type": "string", "const": entry.type},
            "created_at": INSTANT,
            "data": entry.schema,
        },
        "required": ["id", "type", "created_at", "data"],
    }


def _example(schema: dict[str, Any]) -> Any:
    """An example value of ``schema`` with every member."""
    if schema.get("type") == "object":
        return {name: _example(member) for name, member in schema.get("properties", {}).items()}
    if schema.get("type") == "array":
        return [_example(schema["items"])]
    if "const" in schema or "enum" in schema:
        return sample(schema, {})
    if "format" in schema:
        return _FORMATS[schema["format"]]
    if "pattern" in schema:
        return _PATTERNS.get(schema["pattern"], _AMOUNT)
    return _plain(schema)


def _plain(schema: dict[str, Any]) -> Any:
    kind = schema.get("type", "string")
    first = kind[0] if isinstance(kind, list) else kind
    return {"integer": schema.get("minimum", 1), "boolean": True, "null": None}.get(first, "text")
