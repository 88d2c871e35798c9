"""The benchmark of accounts with many open holds: each step leaves the holds as they were."""

from __future__ import annotations

from loadtests.generators.pure import AMOUNT_MINOR
from loadtests.holds import PooledAccount, holds_series


def test_steps_place_and_release_their_hold() -> None:
    pool = PooledAccount(3)
    pool.run(0.01)
    assert pool.seconds
    assert (len(pool.account.holds), pool.account.held_minor) == (3, 3 * AMOUNT_MINOR)
    assert pool.account.version == 2 * len(pool.seconds)


def test_each_size_has_a_point() -> None:
    series = holds_series((0, 40), 0.02)
    assert [point.size for point in series.points] == [0, 40]
    assert all(point.value > 0 for point in series.points)
    assert series.growth is not None
