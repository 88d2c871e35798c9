"""Bars of days: their places and heights."""

from __future__ import annotations

from api.console.day_chart import DAYS_MIN, HEIGHT, WIDTH, day_chart


def test_bars_of_a_day_are_stacked_to_its_share_of_the_height() -> None:
    figures = [{"day": "2026-11-01"}, {"day": "2026-11-10"}]
    chart = day_chart(figures, {"lost": [3, 1], "gained": [1, 0]})
    assert chart is not None
    assert (chart.first_day, chart.last_day, chart.highest) == ("2026-11-01", "2026-11-10", 4)
    lost, gained, last = chart.bars
    assert (lost.height, lost.y, gained.height, gained.y) == (HEIGHT * 3 / 4, HEIGHT / 4, HEIGHT / 4, 0)
    assert (lost.x, last.x, lost.width) == (10.0, 910.0, 80.0)
    assert (last.series, last.title) == ("lost", "2026-11-10: 1 lost")


def test_chart_of_one_day_ends_with_it_and_shows_the_days_before() -> None:
    chart = day_chart([{"day": "2026-03-01"}], {"matched": [2]})
    assert chart is not None
    assert chart.first_day == "2026-02-23"
    [bar] = chart.bars
    assert bar.x + bar.width <= WIDTH
    assert bar.width == round(WIDTH / DAYS_MIN * 0.8, 1)


def test_no_figures_make_no_chart() -> None:
    assert day_chart([], {"matched": []}) is None
    assert day_chart([{"day": "2026-03-01"}], {"matched": [0]}) is None
