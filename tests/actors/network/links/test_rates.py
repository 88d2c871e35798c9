"""Rates are the growth of counters within the last minute."""

from __future__ import annotations

from actors.network.links.rates import Rates

APPROVED, DECLINED = ("0110", "00"), ("0110", "51")


def test_growth_of_the_last_minute() -> None:
    rates, answers = Rates(0.0), {APPROVED: 10}
    rates.note(1.0, answers)
    assert rates.recent(2.0, answers) == {APPROVED: 10}
    for second in range(5, 61, 5):
        rates.note(float(second), answers)
    answers = {APPROVED: 15, DECLINED: 2}
    assert rates.recent(62.0, answers) == {APPROVED: 5, DECLINED: 2}
    rates.note(65.0, answers)
    rates.note(70.0, answers)
    assert rates.recent(126.0, answers) == {}
