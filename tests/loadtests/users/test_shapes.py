"""The number of users over time, and the end of a run."""

from __future__ import annotations

import pytest

from loadtests.users.shapes import SHAPES, users_at


@pytest.mark.parametrize(
    ("shape", "users"),
    [
        ("steady", [50, 50, 50, 50, 50, 50, 50, 50, 50, 50]),
        ("step", [10, 10, 20, 20, 30, 30, 40, 40, 50, 50]),
        ("spike", [10, 10, 10, 10, 50, 50, 10, 10, 10, 10]),
        ("soak", [1, 50, 50, 50, 50, 50, 50, 50, 50, 50]),
    ],
)
def test_each_shape_has_its_curve(shape: str, users: list[int]) -> None:
    assert [users_at(shape, float(second), 10.0, 50) for second in range(10)] == users


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_ends_and_is_never_empty(shape: str) -> None:
    assert users_at(shape, 10.0, 10.0, 50) is None
    assert all(users_at(shape, at / 10, 10.0, 1) == 1 for at in range(100))
