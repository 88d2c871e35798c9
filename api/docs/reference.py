"""The description as a page: each operation with its members, its example as a curl command and as a call of
the Python client, and its answer.

``/docs`` is for trying out operations; this page is for reading, searching and printing. Its script adds the
search, the choice of the language and the copy buttons; without it everything is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

import jinja2
from markupsafe import Markup, escape

from api.docs.examples import answer_content, recorded_python_calls

Json = dict[str, Any]

_CODE: Final = re.compile(r"`([^`]+)`")
_TEMPLATES: Final = jinja2.Environment(
    loader=jinja2.PackageLoader("api.docs"), autoescape=True, undefined=jinja2.StrictUndefined
)
_METHODS: Final = ("get", "post", "put", "patch", "delete")
_LONG_LINES: Final = 24
"""Examples with more lines get a height of their own and can be scrolled."""
PYTHON_PREFACE: Final = """\
import os

from stanchion import Client

client = Client(os.environ["BASE"], os.environ["CLIENT"], os.environ["SECRET"])"""
"""The lines before each Python example."""


@dataclass(frozen=True)
class Member:
    """One member of an object, or one parameter."""

    name: str
    kind: Markup
    required: bool
    about: Markup


@dataclass(frozen=True)
class Entry:
    """One operation on the page."""

    name: str
    method: str
    path: str
    tag: str
    summary: str
    about: Markup
    parameters: tuple[Member, ...]
    request_type: Markup | None
    """The type of the request body."""
    curl: str
    python: str
    """Empty if there is none."""
    status: str
    answer_type: Markup | None
    answer: str
    problems: tuple[tuple[str, str], ...]
    """Status and slug of each problem."""


def render(document: Json) -> str:
    """Render the page of ``document``, an OpenAPI description from ``api.docs.openapi``."""
    calls = recorded_python_calls()
    entries = [
        _entry(path, method, operations[method], calls)
        for path, operations in document["paths"].items()
        for method in _METHODS
        if method in operations
    ]
    tags = {tag["name"]: [each for each in entries if each.tag == tag["name"]] for tag in document["tags"]}
    return _TEMPLATES.get_template("reference.html").render(
        info=document["info"],
        about=_prose(document["info"]["description"].partition("\n\n")[2]),
        tags=tags,
        abouts={tag["name"]: tag["description"] for tag in document["tags"]},
        objects=[_object(name, schema) for name, schema in document["components"]["schemas"].items()],
        python_preface=PYTHON_PREFACE,
        long_lines=_LONG_LINES,
    )


def _entry(path: str, method: str, operation: Json, calls: Mapping[str, str]) -> Entry:
    body = operation.get("requestBody", {}).get("content", {})
    status, response = next(iter(operation["responses"].items()))
    content = answer_content(response)
    return Entry(
        name=operation["operationId"],
        method=method.upper(),
        path=path,
        tag=operation["tags"][0],
        summary=operation["summary"],
        about=_prose(operation["description"]),
        parameters=tuple(_parameter(each) for each in operation.get("parameters", ())),
        request_type=_kind(next(iter(body.values()))["schema"]) if body else None,
        curl=curl(path, method, operation),
        python=calls.get(operation["operationId"], ""),
        status=status,
        answer_type=_kind(content["schema"]) if content else None,
        answer=_shown(content["examples"]["example"]["value"]) if content else "",
        problems=tuple(_problems(operation["responses"])),
    )


def curl(path: str, method: str, operation: Json) -> str:
    """The example of an operation as a curl command; the reader sets ``$BASE`` and ``$TOKEN``."""
    parameters = operation.get("parameters", ())
    given = {each["name"]: each["example"] for each in parameters if "example" in each}
    query = {each["name"]: given[each["name"]] for each in parameters if _in_query(each, given)}
    address = path.replace("{id}", str(given.get("id"))) + (f"?{urlencode(query)}" if query else "")
    parts = [f'curl -sS {"" if method in ("get", "post") else f"-X {method.upper()} "}"$BASE{address}"']
    body = operation.get("requestBody", {}).get("content", {})
    if "application/x-www-form-urlencoded" in body:
        form = body["application/x-www-form-urlencoded"]["examples"]["example"]["value"]
        return " \\\n  ".join([*parts, '-u "$CLIENT:$SECRET"', f"-d '{urlencode(form)}'"])
    parts.append('-H "Authorization: Bearer $TOKEN"')
    if "Idempotency-Key" in given:
        parts.append(f'-H "Idempotency-Key: {given["Idempotency-Key"]}"')
    if body:
        parts += [
            '-H "Content-Type: application/json"',
            f"-d '{_quoted(body['application/json']['examples']['example']['value'])}'",
        ]
    return " \\\n  ".join(parts)


def _in_query(parameter: Json, given: Json) -> bool:
    return parameter["in"] == "query" and parameter["name"] in given


def _quoted(body: Any) -> str:
    """JSON text, escaped for a shell's single quotes."""
    return _shown(body if body is not None else {}).replace("'", "'\\''")


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def _problems(responses: Json) -> Iterator[tuple[str, str]]:
    for status, response in responses.items():
        for slug in response.get("content", {}).get("application/problem+json", {}).get("examples", {}):
            yield status, slug


def _parameter(parameter: Json) -> Member:
    about = _prose(parameter.get("description", ""))
    name = parameter["name"]
    return Member(name, _kind(parameter["schema"]), parameter["required"], about)


def _object(name: str, schema: Json) -> tuple[str, Markup, list[Member]]:
    required = schema.get("required", ())
    members = [
        Member(each, _kind(member), each in required, _prose(member.get("description", "")))
        for each, member in schema.get("properties", {}).items()
    ]
    return name, _prose(schema.get("description", "")), members


def _kind(schema: Json) -> Markup:
    """The type of a value, with links to object types."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return Markup('<a href="#{0}">{0}</a>').format(name)
    for union in ("anyOf", "oneOf"):
        if union in schema:
            return Markup(" or ").join(_kind(each) for each in schema[union])
    if "const" in schema:
        return Markup("<code>{}</code>").format(schema["const"])
    if "enum" in schema:
        return Markup(", ").join(Markup("<code>{}</code>").format(each) for each in schema["enum"])
    if schema.get("type") == "array":
        return Markup("list of ") + _kind(schema.get("items", {}))
    kind = escape(schema.get("type", "any"))
    return kind + Markup(" ({})").format(schema["format"]) if "format" in schema else kind


def _prose(text: str) -> Markup:
    """Render the Markdown that descriptions use: paragraphs, lists and code."""
    shown = Markup()
    for paragraph in filter(None, (each.strip() for each in text.split("\n\n"))):
        if paragraph.startswith("* "):
            items = (_coded(" ".join(item.split())) for item in paragraph[2:].split("\n* "))
            shown += Markup("<ul>{}</ul>").format(
                Markup().join(Markup("<li>{}</li>").format(each) for each in items)
            )
        else:
            shown += Markup("<p>{}</p>").format(_coded(" ".join(paragraph.split())))
    return shown


def _coded(text: str) -> Markup:
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(text))))
