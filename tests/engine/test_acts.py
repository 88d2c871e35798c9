"""The members that an act changed, without secrets and personal data."""

from __future__ import annotations

from typing import Any

import pytest

from engine.acts import MASK, changed


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (None, {"a": 1}, (None, {"a": 1})),
        ({"a": 1}, None, ({"a": 1}, None)),
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, ({"b": 2}, {"b": 3})),
        ({"a": 1}, {"a": 1, "b": 2}, ({"b": None}, {"b": 2})),
        ({"a": 1, "b": 2}, {"a": 1}, ({"b": 2}, {"b": None})),
        ({"a": 1}, {"a": 1}, (None, None)),
        ({"a": 1, "updated_at": "x"}, {"a": 1, "updated_at": "y"}, (None, None)),
        ({}, {}, (None, None)),
    ],
)
def test_members_that_differ_are_returned(
    before: dict[str, Any] | None, after: dict[str, Any] | None, expected: tuple[Any, Any]
) -> None:
    assert changed(before, after) == expected


def test_hidden_members_are_masked_and_their_absence_is_shown() -> None:
    before = {"email": "ada@example.com", "phone": None, "city": "Dublin"}
    after = {"email": "byron@example.com", "phone": "+353861234567", "city": "Dublin"}
    assert changed(before, after, {"email", "phone"}) == (
        {"email": MASK, "phone": None},
        {"email": MASK, "phone": MASK},
    )


def test_queries_of_addresses_are_masked() -> None:
    before, after = {"url": "https://a.example/hook?token=1"}, {"url": "https://a.example/hook?token=2"}
    shown = {"url": f"https://a.example/hook?{MASK}"}
    assert changed(before, after) == (shown, shown)
    assert changed({"decision_url": None}, {"decision_url": "https://a.example/d"})[1] == {
        "decision_url": "https://a.example/d"
    }
