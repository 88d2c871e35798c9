"""Examples made from schemas, so that none can be forgotten or fall behind."""

from __future__ import annotations

from typing import Any


def sample(schema: dict[str, Any], schemas: dict[str, Any], *, full: bool = False) -> Any:
    """A value of ``schema``; ``full`` gives all members of objects, not only the required ones."""
    if "$ref" in schema:
        return sample(schemas[schema["$ref"].rpartition("/")[2]], schemas, full=full)
    if schema.get("examples"):
        return schema["examples"][0]
    for known in ("const", "default"):
        if schema.get(known) is not None:
            return schema[known]
    if "enum" in schema:
        return schema["enum"][0]
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return sample(schema[union][0], schemas, full=full)
    return _of_type(schema, schemas, full=full)


def _of_type(schema: dict[str, Any], schemas: dict[str, Any], *, full: bool) -> Any:
    kind = schema.get("type")
    if kind == "object":
        required = schema.get("required", [])
        return {
            name: sample(member, schemas, full=full)
            for name, member in schema.get("properties", {}).items()
            if full or name in required
        }
    if kind == "array":
        return [sample(schema["items"], schemas, full=full)]
    return {"integer": 1, "number": 1.0, "boolean": True, "string": "text"}.get(str(kind))
