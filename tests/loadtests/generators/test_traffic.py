"""The mix has its proportions, and a few cards get most of a Zipf draw."""

from __future__ import annotations

import random
from collections import Counter

from loadtests.generators.traffic import MIX, Cards, Sales, amount_minor

DRAWS = 20_000


def test_steps_follow_the_mix() -> None:
    sales: Sales[int] = Sales(random.Random(1))
    sales.add(1)
    seen = Counter(sales.next_step() for _ in range(DRAWS))
    assert sum(MIX.values()) == 100
    for step, percent in MIX.items():
        assert abs(100 * seen[step] / DRAWS - percent) < 1.5


def test_the_first_steps_are_spends() -> None:
    sales: Sales[int] = Sales(random.Random(1))
    assert {sales.next_step() for _ in range(500)} == {"spend", "refund"}


def test_the_oldest_sale_is_followed_up_first() -> None:
    sales: Sales[int] = Sales(random.Random(1))
    for number in (1, 2):
        sales.add(number)
    assert (sales.take(), len(sales)) == (1, 1)


def test_draws_are_uniform_or_zipf() -> None:
    uniform, zipf = (
        Counter(cards.draw() for _ in range(DRAWS))
        for cards in (Cards(100, "uniform", random.Random(1)), Cards(100, "zipf", random.Random(1)))
    )
    assert set(uniform) == set(range(100))
    assert max(uniform.values()) < 2 * DRAWS / 100
    assert zipf.most_common(1)[0][0] == 0
    assert zipf[0] > 10 * zipf[50] > 0
    assert max(zipf) < 100


def test_amounts_are_plausible() -> None:
    chance = random.Random(1)
    amounts = sorted(amount_minor(chance) for _ in range(1_000))
    assert amounts[0] >= 1
    assert amounts[-1] <= 50_000
    assert 500 < amounts[500] < 5_000
