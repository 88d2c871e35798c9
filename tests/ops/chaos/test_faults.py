"""What a fault's outcome says of decisions that should not have noticed it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_unnoticed
from ops.chaos.faults.fault import Outcome
from ops.histories.operations import History, Operation


def asked(began: float, seconds: float | None, outcome: Any, code: str | None = None) -> Operation:
    return Operation(
        card_id="c", kind="authorize", stan="1", transmitted_at="2", rrn="3", amount_minor=1, began=began,
        ended=None if seconds is None else began + seconds, outcome=outcome, response_code=code,
    )  # fmt: skip


def rig(*operations: Operation) -> Any:
    return SimpleNamespace(crowd=SimpleNamespace(history=History(list(operations))))


def test_decisions_that_went_on_are_no_fault() -> None:
    outcome = Outcome(0.0)
    before, without_end = asked(1, 1, "fail", "91"), asked(12, None, "info")
    expect_unnoticed(rig(before, asked(11, 0.1, "ok", "00"), without_end), 10, outcome)
    assert outcome.broken == []


def test_those_that_did_not_are_told_with_what_they_heard() -> None:
    outcome = Outcome(0.0)
    failed = [asked(11, 2.04, "fail", "91"), asked(12, 0.1, "fail", "91"), asked(12, 1, "info")]
    expect_unnoticed(rig(asked(11, 0.1, "ok", "00"), *failed), 10, outcome)
    assert outcome.broken == ["3 of 4 decisions noticed (91 × 2, no answer × 1, after up to 2.0 s)"]


def test_nobody_asking_shows_nothing() -> None:
    with pytest.raises(NotInjectedError):
        expect_unnoticed(rig(asked(1, 1, "ok", "00")), 10, Outcome(0.0))
