"""The distribution of spends over cards."""

from __future__ import annotations

import itertools
from collections import Counter

import pytest

from loadtests.generators.draws import DRAWS, half, uniform, zipf
from loadtests.generators.workload import drawn


def test_uniform_needs_no_weights() -> None:
    assert uniform(10) is None


def test_zipf_falls_with_the_rank() -> None:
    weights = zipf(1_000)
    assert weights[0] == 1.0
    assert weights[1] == pytest.approx(2**-1.1)
    assert weights[999] == pytest.approx(1000**-1.1)


@pytest.mark.parametrize("count", [2, 10, 1_000])
def test_one_card_takes_half(count: int) -> None:
    weights = half(count)
    assert (len(weights), weights[0]) == (count, 0.5)
    assert sum(weights) == pytest.approx(1.0)
    assert len(set(weights[1:])) == 1


def test_half_of_one_card_is_that_card() -> None:
    assert half(1) == [1.0]


@pytest.mark.parametrize(
    ("name", "least", "most"), [("uniform", 5, 40), ("zipf", 1_500, 2_900), ("half", 4_700, 5_300)]
)
def test_draws_follow_their_weights(name: str, least: int, most: int) -> None:
    cards = list(range(500))
    counts = Counter(itertools.islice(drawn(cards, DRAWS[name](len(cards))), 10_007))
    assert least <= counts[0] <= most
