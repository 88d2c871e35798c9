"""Rows of metadata: keys and values as texts, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from api.console.api_calls import Problem
from api.console.editor.names import rows, text
from api.http.validation import HIDDEN, SHOWABLE
from engine.limits import METADATA_KEYS_MAX

NAME: Final = "metadata"


def pairs_of(form: Mapping[str, Any]) -> dict[str, str]:
    """The API's metadata of a form. Of a key that is given several times, the last value counts.

    >>> pairs_of({"metadata": [{"key": " team ", "value": "red"}, {"key": "", "value": ""}]})
    {'team': 'red'}
    """
    return {text(row, "key"): text(row, "value") for row in given_rows(form)}


def given_rows(form: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a form that are filled in."""
    filled = [row for row in rows(form.get(NAME)) if text(row, "key") or text(row, "value")]
    return filled[: METADATA_KEYS_MAX + 1]


def pair_rows(metadata: Mapping[str, str]) -> list[dict[str, Any]]:
    """The rows of an object's metadata."""
    return [{"key": key, "value": value} for key, value in metadata.items()]


def change_of(before: Mapping[str, str], form: Mapping[str, Any]) -> dict[str, str | None]:
    """The API's change from the pairs ``before`` to those of ``form``: removed pairs are ``None``.

    >>> change_of({"a": "1", "b": "2"}, {"metadata": [{"key": "b", "value": "3"}]})
    {'a': None, 'b': '3'}
    """
    after = pairs_of(form)
    removed: dict[str, str | None] = {key: None for key in before if key not in after}
    return removed | {key: value for key, value in after.items() if before.get(key) != value}


def at_rows(problem: Problem, form: Mapping[str, Any]) -> Problem:
    """``problem`` with the places of the rows in place of their keys, as the form's names have them. Pointers
    name unusual keys alike; of several such rows, none is marked."""
    names = [_name(text(row, "key")) for row in given_rows(form)]
    places = {
        f"/{NAME}/{name}": f"/{NAME}/{place}" for place, name in enumerate(names) if names.count(name) == 1
    }
    moved = tuple(
        dataclasses.replace(each, pointer=places.get(each.pointer, each.pointer)) for each in problem.errors
    )
    return problem._replace(errors=moved)


def _name(key: str) -> str:
    return key if SHOWABLE.fullmatch(key) else HIDDEN
