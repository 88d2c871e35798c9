"""From the models' JSON schemas to the published ones: public names, and queries as parameters."""

from __future__ import annotations

import json
import re
from typing import Any

_VIEW = re.compile(r'"#/components/schemas/(\w+?)View"')


def published(definitions: dict[str, Any]) -> dict[str, Any]:
    """The schemas under public names: what is shown is called ``Card``, what is read ``CardInput``."""
    named = {name.removesuffix("View"): schema for name, schema in definitions.items()}
    renamed: dict[str, Any] = json.loads(_VIEW.sub(r'"#/components/schemas/\1"', json.dumps(named)))
    for name, schema in sorted(renamed.items()):
        schema["title"] = name
        for property_ in schema.get("properties", {}).values():
            property_.pop("title", None)
    return dict(sorted(renamed.items()))


def parameters_of(query: dict[str, Any], given: dict[str, str]) -> list[dict[str, Any]]:
    """The query parameters of an operation whose query model has the schema ``query``; ``given``: the query
    of its example."""
    required = set(query.get("required", ()))
    return [
        _parameter(name, schema, given.get(name), required=name in required)
        for name, schema in query.get("properties", {}).items()
    ]


def _parameter(name: str, schema: dict[str, Any], given: str | None, *, required: bool) -> dict[str, Any]:
    """A parameter is there or not: it is never null."""
    kinds = [kind for kind in schema.get("anyOf", [schema]) if kind.get("type") != "null"]
    kind = {key: value for key, value in kinds[0].items() if key not in {"description", "items"}}
    if schema.get("default") is not None:
        kind["default"] = schema["default"]
    parameter = {"name": name, "in": "query", "required": required, "schema": kind}
    if given is not None:
        parameter["example"] = int(given) if kind.get("type") == "integer" else given
    description = schema.get("description") or kinds[0].get("description")
    return parameter | ({"description": description} if description else {})
