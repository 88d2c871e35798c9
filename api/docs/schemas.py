"""Public names of schemas: responses are named like ``Card``, requests like ``CardInput``."""

from __future__ import annotations

import json
import re
from typing import Any

_VIEW = re.compile(r'"#/components/schemas/(\w+?)View"')


def publish(document: dict[str, Any]) -> dict[str, Any]:
    """``document`` with the schemas of its views renamed to their public names."""
    public: dict[str, Any] = json.loads(
        _VIEW.sub(r'"#/components/schemas/\1"', json.dumps(document)), parse_float=_number
    )
    schemas = public["components"]["schemas"]
    named = {name.removesuffix("View"): schema for name, schema in schemas.items()}
    for name, schema in named.items():
        schema["title"] = name
        for member in schema.get("properties", {}).values():
            member.pop("title", None)
    public["components"]["schemas"] = dict(sorted(named.items()))
    return public


def _number(text: str) -> int | float:
    """Restore integer limits, which FastAPI writes as floating-point numbers."""
    number = float(text)
    return int(number) if number.is_integer() else number
