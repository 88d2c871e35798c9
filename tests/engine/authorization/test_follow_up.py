"""Single follow-ups of an authorization: the balance and the public status after each."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.engine.desk import Desk

STEPS: dict[str, tuple[list[tuple[Any, ...]], tuple[int, int], str]] = {
    "held": ([("authorize", 1_000)], (10_000, 1_000), "pending"),
    "raised": ([("authorize", 1_000), ("increment", 500)], (10_000, 1_500), "pending"),
    "given back": ([("authorize", 1_000), ("reverse",)], (10_000, 0), "reversed"),
    "given back twice": ([("authorize", 1_000), ("reverse",), ("reverse",)], (10_000, 0), "reversed"),
    "captured": ([("authorize", 1_000), ("present", 1_000)], (9_000, 0), "cleared"),
    "captured in part": ([("authorize", 1_000), ("present", 400)], (9_600, 0), "cleared"),
    "over-captured": ([("authorize", 1_000), ("present", 12_000)], (-2_000, 0), "cleared"),
    "captured, then reversed": (
        [("authorize", 1_000), ("present", 700), ("reverse",)],
        (9_300, 0),
        "cleared",
    ),
    "reversed, then captured": (
        [("authorize", 1_000), ("reverse",), ("present", 1_000)],
        (9_000, 0),
        "cleared",
    ),
    "lapsed": ([("authorize", 1_000), ("expire",)], (10_000, 0), "lapsed"),
    "lapsed, then raised": (
        [("authorize", 1_000), ("expire",), ("increment", 1)],
        (10_000, 1_001),
        "pending",
    ),
    "lapsed, then captured": ([("authorize", 1_000), ("expire",), ("present", 900)], (9_100, 0), "cleared"),
    "declined, then advised": ([("authorize", 20_000), ("advise", 20_000)], (10_000, 20_000), "pending"),
    "declined, then presented": ([("authorize", 20_000), ("present", 20_000)], (-10_000, 0), "posted"),
    "advised up": ([("authorize", 1_000), ("advise", 1_700)], (10_000, 1_700), "pending"),
    "advised down": ([("authorize", 1_000), ("advise", 300)], (10_000, 300), "pending"),
    "advised only": ([("advise", 300)], (10_000, 300), "pending"),
    "reversed before it came": ([("reverse",), ("authorize", 1_000)], (10_000, 0), "reversed"),
    "reversed before its advice": ([("reverse",), ("advise", 1_000)], (10_000, 0), "reversed"),
    "forced": ([("present", 1_000)], (9_000, 0), "posted"),
}


@pytest.mark.parametrize("name", STEPS)
def test_balance_and_status_after_follow_ups(name: str) -> None:
    steps, balance, ended = STEPS[name]
    desk = Desk()
    for verb, *amounts in steps:
        getattr(desk, verb)(*amounts)
    assert (desk.balance, desk.status()) == (balance, ended)
