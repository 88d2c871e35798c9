"""The benchmark of back-tests: every decision is lived again, and some are turned."""

from __future__ import annotations

from loadtests.relived import RelivedCard, relived_series


def test_history_is_lived_as_a_whole_and_decisions_are_turned() -> None:
    card = RelivedCard(300)
    card.run(0.0)
    card.run(0.0)
    assert card.lived == 600
    assert 0 < card.flips < 30
    assert card.seconds > 0


def test_each_length_has_a_point() -> None:
    series = relived_series((20, 60), 0.0)
    assert [point.size for point in series.points] == [20, 60]
    assert series.growth is not None
