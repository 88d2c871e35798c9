"""Examples: requests to a running installation and its answers, recorded by ``ops.reference``, and the same
requests as calls of the Python client. A new operation without a recorded example gets a sample generated
from its schemas."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final, TypedDict

FILE: Final = Path(__file__).with_name("examples.json")
PYTHON_FILE: Final = Path(__file__).with_name("python_calls.json")


class Example(TypedDict):
    """One request and its answer; ``None`` for an absent body."""

    id: str | None
    """The id in the path."""
    query: dict[str, str]
    request: Any
    status: int
    response: Any


def recorded() -> dict[str, Example]:
    """Recorded examples by name of operation."""
    examples: dict[str, Example] = json.loads(FILE.read_bytes()) if FILE.exists() else {}
    return examples


def recorded_python_calls() -> dict[str, str]:
    """The requests of the examples as calls of the Python client, by name of operation. The API cannot
    compute them: it does not import the client."""
    calls: dict[str, str] = json.loads(PYTHON_FILE.read_bytes()) if PYTHON_FILE.exists() else {}
    return calls


def answer_content(response: dict[str, Any]) -> dict[str, Any] | None:
    """The content of a described success, which has one media type: JSON or CSV. ``None`` without a body."""
    content: dict[str, dict[str, Any]] = response.get("content", {})
    return content.get("application/json") or content.get("text/csv")


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
