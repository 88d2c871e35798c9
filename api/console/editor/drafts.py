"""The content of an editor that shows its object as rows or as JSON, with a button from each to the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from api.console.api_calls import Problem
from api.console.editor.rules import JsonError, json_object

UNSHOWABLE: Final = "The rows cannot show all members of this text. Save it as JSON, or remove them."


class Draft(NamedTuple):
    """The editor's content: its fields, and the JSON text that stands in place of its rows."""

    form: dict[str, Any]
    json: str | None = None
    problem: Problem | None = None
    message: str | None = None
    """A sentence about the JSON text."""


def from_json(
    form: dict[str, Any],
    given: str,
    act: str,
    showable: Callable[[Mapping[str, Any]], bool],
    fields_of: Callable[[Mapping[str, Any]], dict[str, Any]],
) -> dict[str, Any] | Draft:
    """The object of the text ``given``; or a draft, if the text is wrong or the button ``act`` is ``rows``.
    ``showable`` says whether rows can show every member, ``fields_of`` returns the fields of the rows."""
    try:
        value = json_object(given)
    except JsonError as wrong:
        return Draft(form, given, message=str(wrong))
    if act != "rows":
        return value
    if not showable(value):
        return Draft(form, given, message=UNSHOWABLE)
    return Draft(form | fields_of(value))
