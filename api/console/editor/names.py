"""Nested names of form fields: ``when.0.op`` is the member ``op`` of the first element of ``when``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from api.http.problems import FieldError

DEPTH_MAX: Final = 8
"""Parts of a name; names with more parts are ignored."""
LIST_SUFFIX: Final = "[]"
"""The end of the name of checkboxes that share it: their values form a list."""


def nested(fields: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """The members of the form's ``fields``. Numbers are places in lists; unused places are left out, so
    elements are numbered anew. Of a name that is also the beginning of another one, the first counts.

    >>> nested([("name", "x"), ("when.3.op", "eq"), ("when.1.op", "in"), ("kinds[]", "a"), ("kinds[]", "b")])
    {'name': 'x', 'when': [{'op': 'in'}, {'op': 'eq'}], 'kinds': ['a', 'b']}
    """
    tree: dict[str, Any] = {}
    for name, value in fields:
        parts = name.removesuffix(LIST_SUFFIX).split(".")
        if len(parts) > DEPTH_MAX:
            continue
        at: Any = tree
        for part in parts[:-1]:
            at = at.setdefault(part, {}) if isinstance(at, dict) else None
        if not isinstance(at, dict):
            continue
        if name.endswith(LIST_SUFFIX):
            values = at.setdefault(parts[-1], [])
            if isinstance(values, list):
                values.append(value)
        else:
            at.setdefault(parts[-1], value)
    listed = _listed(tree)
    return listed if isinstance(listed, dict) else {}


def _listed(tree: Any) -> Any:
    """``tree`` with lists in place of the objects whose members are all numbers."""
    if not isinstance(tree, dict):
        return tree
    if tree and all(part.isascii() and part.isdecimal() and len(part) <= 6 for part in tree):
        return [_listed(tree[part]) for part in sorted(tree, key=int)]
    return {part: _listed(value) for part, value in tree.items()}


def rows(value: Any) -> list[dict[str, Any]]:
    """The objects of the list ``value``; none if it is no list."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def group(form: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The fields whose names begin with ``name`` and a dot; none if there is no such group."""
    value = form.get(name)
    return value if isinstance(value, dict) else {}


def text(form: Mapping[str, Any], name: str) -> str:
    """The text of the field ``name`` without surrounding blanks; empty if there is none."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def texts(form: Mapping[str, Any], name: str) -> list[str]:
    """The values of the checkboxes ``name``."""
    value = form.get(name)
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def placed(errors: Iterable[FieldError], form: Mapping[str, Any]) -> dict[str, list[str]]:
    """The sentences of a problem's ``errors`` by the name of the field or group of ``form`` that each is
    about. Those about no field have the name ``""`` and begin with their pointer.

    >>> placed([FieldError("/when/0/value/1", "format", "No.")], {"when": [{"value": "1, x"}]})
    {'when.0.value': ['No.']}
    """
    names = set(_names(form, ""))
    found: dict[str, list[str]] = {}
    for error in errors:
        parts = error.pointer.strip("/").split("/")
        prefixes = [".".join(parts[:count]) for count in range(len(parts), 0, -1)]
        name = next((prefix for prefix in prefixes if prefix in names), "")
        pointed = f"{error.pointer[1:]}: " if error.pointer and not name else ""
        found.setdefault(name, []).append(pointed + error.detail)
    return found


def _names(value: Any, prefix: str) -> Iterator[str]:
    if isinstance(value, Mapping):
        members: Iterable[tuple[Any, Any]] = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    else:
        return
    for part, member in members:
        yield f"{prefix}{part}"
        yield from _names(member, f"{prefix}{part}.")


def edited(form: dict[str, Any], act: str) -> bool:
    """Change ``form`` as the button ``act`` says: ``add:NAME`` appends an empty row to the list of that name,
    ``remove:NAME.3`` removes its fourth row. Whether it was such a button.

    >>> form = {"when": [{"op": "eq"}]}
    >>> edited(form, "add:when"), form
    (True, {'when': [{'op': 'eq'}, {}]})
    """
    verb, _, name = act.partition(":")
    if verb == "add":
        _add(form, name.split("."))
    elif verb == "remove":
        _remove(form, name.split("."))
    else:
        return False
    return True


def _add(form: dict[str, Any], parts: list[str]) -> None:
    parent = _member(form, parts[:-1])
    if isinstance(parent, dict):
        listed = parent.setdefault(parts[-1], [])
        if isinstance(listed, list):
            # Without rows, the page shows an empty one; the button adds another.
            listed.extend([{}] if listed else [{}, {}])


def _remove(form: dict[str, Any], parts: list[str]) -> None:
    listed, place = _member(form, parts[:-1]), parts[-1]
    if isinstance(listed, list) and place.isdecimal() and int(place[:6]) < len(listed):
        del listed[int(place[:6])]


def _member(value: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and part.isdecimal() and int(part[:6]) < len(value):
            value = value[int(part[:6])]
        else:
            return None
    return value
