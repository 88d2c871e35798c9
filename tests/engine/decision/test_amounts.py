"""The amounts of a decision: available funds, and the total that an increment raises."""

from __future__ import annotations

import pytest

from engine.cards.authorization import OriginalView
from engine.decision.amounts import authorized_minor, available_minor, stand_in_minor
from tests.support.engine.build import an_id, authorize, inputs

HELD = OriginalView(an_id(1), 1_000, 300, 100, 600, 0, True)
LAPSED = OriginalView(an_id(1), 1_000, 300, 0, 0, 700, True)


@pytest.mark.parametrize(
    ("posted_minor", "original", "available"),
    [(10_000, None, 8_000), (10_000, HELD, 8_000), (10_000, LAPSED, 7_300), (None, None, 0)],
)
def test_available_funds_exclude_held_and_lapsed_amounts(
    posted_minor: int | None, original: OriginalView | None, available: int
) -> None:
    assert (
        available_minor(inputs(posted_minor=posted_minor, held_minor=2_000, original=original)) == available
    )


@pytest.mark.parametrize(("original", "total"), [(None, 0), (HELD, 900), (LAPSED, 1_000)])
def test_total_of_the_raised_authorization(original: OriginalView | None, total: int) -> None:
    assert authorized_minor(inputs(original=original)) == total


@pytest.mark.parametrize(
    ("partial", "cap", "amount"), [(True, 400, 400), (True, None, 1_000), (False, 400, 1_000)]
)
def test_stand_in_approves_up_to_the_terminals_cap(partial: bool, cap: int | None, amount: int) -> None:
    assert stand_in_minor(authorize(partial_allowed=partial, partial_cap_minor=cap)) == amount
