"""The points of a risk score, and the action of their sum."""

from __future__ import annotations

from typing import Any

import pytest

from engine.decision import risk
from tests.support.engine.build import authorize


@pytest.mark.parametrize(
    ("parts", "failures", "points"),
    [
        ({}, 0, 0),
        ({}, 1, 10),
        ({}, 3, 30),
        ({}, 5, 30),
        ({"channel": "moto"}, 0, 30),
        ({"channel": "moto", "mit": True}, 0, 0),
        ({"channel": "ecommerce"}, 0, 0),
        ({"entry_mode": "magstripe"}, 0, 25),
        ({"entry_mode": None}, 0, 0),
        ({"mcc": "7995"}, 0, 30),
        ({"merchant_country": "US"}, 0, 15),
        ({"merchant_country": "DE"}, 0, 0),
        ({"merchant_country": "GB", "currency": "GBP"}, 0, 0),
        ({"merchant_country": "IE", "currency": "GBP"}, 0, 15),
        ({"merchant_country": "US", "currency": "USD"}, 0, 0),
        ({"amount_minor": 499_999}, 0, 0),
        ({"amount_minor": 500_000}, 0, 15),
        ({"channel": "moto", "entry_mode": "magstripe", "mcc": "6051", "merchant_country": "US"}, 0, 100),
        ({"channel": "moto", "entry_mode": "magstripe", "mcc": "6051", "merchant_country": "US"}, 3, 100),
    ],
)
def test_score_is_the_sum_of_its_points(parts: dict[str, Any], failures: int, points: int) -> None:
    assert risk.score(authorize(**parts), failures) == points


@pytest.mark.parametrize(
    ("points", "action"),
    [(0, "allow"), (49, "allow"), (50, "review"), (89, "review"), (90, "block"), (100, "block")],
)
def test_action_depends_on_the_score(points: int, action: str) -> None:
    assert risk.action(points) == action


@pytest.mark.parametrize(
    ("parts", "failures", "limit_minor"),
    [
        ({}, 0, None),
        ({"channel": "moto", "mcc": "7995", "merchant_country": "US"}, 0, 499_999),
        ({"channel": "moto", "mcc": "7995", "merchant_country": "US"}, 1, 499_999),
        ({"channel": "moto", "mcc": "7995", "merchant_country": "US"}, 2, 0),
    ],
)
def test_amounts_below_the_limit_are_not_blocked(
    parts: dict[str, Any], failures: int, limit_minor: int | None
) -> None:
    assert risk.amount_limit_minor(authorize(amount_minor=700_000, **parts), failures) == limit_minor
    if limit_minor:
        points = [
            risk.score(authorize(amount_minor=minor, **parts), failures)
            for minor in (1, limit_minor, limit_minor + 1)
        ]
        assert [risk.action(each) == "block" for each in points] == [False, False, True]
