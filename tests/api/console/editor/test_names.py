"""Nested names of form fields, and the fields that the pointers of problems name."""

from __future__ import annotations

from copy import deepcopy

import pytest

from api.console.editor.names import DEPTH_MAX, edited, group, nested, placed, rows, text, texts
from api.http.problems import FieldError

DEEP = ".".join("a" * (DEPTH_MAX + 1))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([], {}),
        ([("name", "x"), ("name", "y")], {"name": "x"}),
        ([("a.1.b", "2"), ("a.0.b", "1"), ("a.10.b", "3")], {"a": [{"b": "1"}, {"b": "2"}, {"b": "3"}]}),
        ([("a.0.b.0.c", "1"), ("a.0.d", "2")], {"a": [{"b": [{"c": "1"}], "d": "2"}]}),
        ([("k[]", "x"), ("k[]", "y")], {"k": ["x", "y"]}),
        ([("a", "1"), ("a.b", "2")], {"a": "1"}),
        ([("a.b", "1"), ("a", "2")], {"a": {"b": "1"}}),
        ([("a.x", "1"), ("a.0", "2")], {"a": {"x": "1", "0": "2"}}),
        ([("0", "1")], {}),
        ([(DEEP, "1")], {}),
        ([("a.9999999.b", "1")], {"a": {"9999999": {"b": "1"}}}),
    ],
)
def test_names_nest(fields: list[tuple[str, str]], expected: object) -> None:
    assert nested(fields) == expected


def test_members_of_other_types_read_as_empty() -> None:
    assert (rows("x"), rows([1, {"a": "b"}])) == ([], [{"a": "b"}])
    assert (text({"a": [1]}, "a"), text({"a": " b "}, "a"), text({}, "a")) == ("", "b", "")
    assert (group({"a": "b"}, "a"), group({"a": {"b": "c"}}, "a")) == ({}, {"b": "c"})
    assert (texts({"a": "b"}, "a"), texts({"a": ["b", 1]}, "a")) == ([], ["b"])


@pytest.mark.parametrize(
    ("pointer", "name"),
    [
        ("/name", "name"),
        ("/when/1/value", "when.1.value"),
        ("/when/1/value/0", "when.1.value"),
        ("/when/1/op", "when.1"),
        ("/when/7/op", "when"),
        ("/other", ""),
        ("", ""),
    ],
)
def test_error_is_placed_at_the_nearest_field(pointer: str, name: str) -> None:
    form = {"name": "x", "when": [{}, {"value": "x"}]}
    sentence = "other: No." if pointer == "/other" else "No."
    assert placed([FieldError(pointer, "format", "No.")], form) == {name: [sentence]}


@pytest.mark.parametrize(
    ("act", "after"),
    [
        ("add:when", {"when": [{"op": "eq", "where": []}, {"op": "in"}, {}]}),
        ("add:when.0.where", {"when": [{"op": "eq", "where": [{}, {}]}, {"op": "in"}]}),
        ("remove:when.0", {"when": [{"op": "in"}]}),
        ("remove:when.2", None),
        ("remove:when.x", None),
        ("remove:when", None),
        ("remove:", None),
        ("add:when.7.where", None),
        ("add:when.0.op", None),
        ("add:name.first", None),
    ],
)
def test_buttons_add_and_remove_rows(act: str, after: object) -> None:
    form = {"when": [{"op": "eq", "where": []}, {"op": "in"}]}
    before = deepcopy(form)
    assert edited(form, act)
    assert form == (before if after is None else after)


def test_other_buttons_leave_the_form() -> None:
    assert not edited({}, "save")
