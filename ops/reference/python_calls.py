"""The requests of the examples as calls of the Python client.

For each operation this module finds the client's method, derives its arguments from the recorded request, and
verifies that the method prepares exactly that request. An operation without such a method is shown as a call
of ``Client.request``.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from api.access.oauth import OPERATION_NAME as TOKEN_OPERATION
from api.app import operations
from api.docs.examples import Example
from stanchion.client import Resources
from stanchion.operations import Operation, Rows

WIDTH: Final = 72
"""Lines are wrapped at this width where Python allows it."""
INDENT: Final = "    "
TOKEN_CALL: Final = "# The client gets tokens by itself, and renews them before they expire."

_ELEMENTS: Final = {"kyc": "check", "stip_activity": "decision", "audit_log": "entry"}
"""Names of one element where they cannot be derived from the name of the list."""
_RETURNS_ITS_RESOURCE: Final = frozenset({"create", "get", "update"})


class Method(NamedTuple):
    """A method of the client."""

    resource: str
    name: str
    declared: Any
    """An ``Operation`` or ``Rows``. They are descriptors, which a type checker would resolve."""


class Arguments(NamedTuple):
    """The arguments of one call."""

    positional: list[Any]
    named: dict[str, Any]


def python_calls(examples: Mapping[str, Example]) -> dict[str, str]:
    """Python code by name of operation. The code uses a variable ``client``."""
    places = {route.name: (route.method, route.path) for route in operations()}
    calls = {name: _call(*places[name], example) for name, example in examples.items() if name in places}
    return dict(sorted((calls | {TOKEN_OPERATION: TOKEN_CALL}).items()))


def _call(method: str, path: str, example: Example) -> str:
    for candidate in _methods(method, path):
        arguments = _arguments(candidate, example)
        if arguments is not None:
            return _code_of(candidate, arguments)
    named = {"query": example["query"], "body": example["request"]}
    given = Arguments(
        [method, path.replace("{id}", str(example["id"]))], {k: v for k, v in named.items() if v}
    )
    return f"answer = {_call_text('client.request', given)}"


def _methods(method: str, path: str) -> Iterator[Method]:
    """The client's methods for an operation."""
    for resource, value in vars(Resources[Any](None)).items():
        for name, declared in vars(type(value)).items():
            if isinstance(declared, Operation | Rows) and (declared.method, declared.path) == (method, path):
                yield Method(resource, name, declared)


def _arguments(method: Method, example: Example) -> Arguments | None:
    """The arguments with which ``method`` prepares the request of ``example``, or ``None``."""
    given = {**example["query"], **(example["request"] or {})}
    arguments = Arguments([], {})
    for parameter in list(inspect.signature(method.declared.prepare).parameters.values())[1:]:
        name = "limit" if parameter.name == "page_size" else parameter.name.rstrip("_")
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.named.update(given)
        elif parameter.name == "id_":
            arguments.positional.append(example["id"] or given.pop("card_id", None))
        elif name in given:
            value = _typed(given.pop(name), str(parameter.annotation))
            if value != parameter.default:
                arguments.named[parameter.name] = value
    return arguments if _prepares(method, arguments, example) else None


def _typed(value: Any, annotation: str) -> Any:
    """A value of the query, which is text, as the method takes it."""
    if annotation == "int":
        return int(value)
    if "Sequence[str]" in annotation and isinstance(value, str):
        return value.split(",")
    return value


def _prepares(method: Method, arguments: Arguments, example: Example) -> bool:
    try:
        call = method.declared.prepare(None, *arguments.positional, **arguments.named)
    except TypeError:
        return False
    query = {name: str(value) for name, value in (call.query or {}).items() if value is not None}
    return (call.id, query, call.body) == (example["id"], example["query"], example["request"])


def _code_of(method: Method, arguments: Arguments) -> str:
    text = _call_text(f"client.{method.resource}.{method.name}", arguments)
    if isinstance(method.declared, Rows):
        element = _element(method.resource if method.name == "list" else method.name)
        return f"for {element} in {text}:\n{INDENT}print({element})"
    if method.name in {"delete", "cancel"}:
        return text
    return f"{_element(method.resource) if method.name in _RETURNS_ITS_RESOURCE else 'answer'} = {text}"


def _element(name: str) -> str:
    """The name of one element of a list."""
    if name in _ELEMENTS:
        return _ELEMENTS[name]
    last = name.rpartition("_")[2]
    return f"{last.removesuffix('ies')}y" if last.endswith("ies") else last.removesuffix("s")


def _call_text(function: str, arguments: Arguments) -> str:
    texts = [_code(value, 1) for value in arguments.positional]
    texts += [f"{name}={_code(value, 1)}" for name, value in arguments.named.items()]
    line = f"{function}({', '.join(texts)})"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    return f"{function}(\n" + "".join(f"{INDENT}{text},\n" for text in texts) + ")"


def _code(value: Any, depth: int) -> str:
    """``value`` as Python code, whose first line is indented by ``depth`` already."""
    if isinstance(value, dict):
        texts = [f"{json.dumps(name)}: {_code(member, depth + 1)}" for name, member in value.items()]
        return _enclosed("{", texts, "}", depth)
    if isinstance(value, list):
        return _enclosed("[", [_code(element, depth + 1) for element in value], "]", depth)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _enclosed(opening: str, texts: list[str], closing: str, depth: int) -> str:
    line = f"{opening}{', '.join(texts)}{closing}"
    # A name of an argument or a member stands before it on its line.
    if len(line) <= WIDTH - 20 - len(INDENT) * depth and "\n" not in line:
        return line
    rows = "".join(f"{INDENT * (depth + 1)}{text},\n" for text in texts)
    return f"{opening}\n{rows}{INDENT * depth}{closing}"
