"""What an outcome records about decisions during a fault."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ops.chaos.errors import NotInjectedError
from ops.chaos.faults.expectations import expect_unnoticed
from ops.chaos.faults.fault import Outcome
from ops.histories.operations import History, Operation


def operation(
    began: float, seconds: float | None, outcome: Any, code: str | None = None, rrn: str = "3"
) -> Operation:
    return Operation(
        card_id="c", kind="authorize", stan="1", transmitted_at="2", rrn=rrn, amount_minor=1, began=began,
        ended=None if seconds is None else began + seconds, outcome=outcome, response_code=code,
    )  # fmt: skip


def rig(*operations: Operation) -> Any:
    return SimpleNamespace(crowd=SimpleNamespace(history=History(list(operations))))


def test_undisturbed_decisions_break_nothing() -> None:
    outcome = Outcome(0.0)
    before, without_end = operation(1, 1, "fail", "91"), operation(12, None, "info", rrn="4")
    expect_unnoticed(rig(before, operation(11, 0.1, "ok", "00"), without_end), 10, outcome)
    assert outcome.broken == []


def test_failed_decisions_are_summarised_by_response_code() -> None:
    outcome = Outcome(0.0)
    failed = [operation(11, 2.04, "fail", "91"), operation(12, 0.1, "fail", "91"), operation(12, 1, "info")]
    expect_unnoticed(rig(operation(11, 0.1, "ok", "00"), *failed), 10, outcome)
    assert outcome.broken == ["3 of 4 decisions failed (91 × 2, no answer × 1, after up to 2.0 s)"]


def test_no_operation_during_the_fault_shows_nothing() -> None:
    with pytest.raises(NotInjectedError):
        expect_unnoticed(rig(operation(1, 1, "ok", "00")), 10, Outcome(0.0))


def test_a_repeat_of_a_message_from_before_the_fault_is_not_its_failure() -> None:
    outcome = Outcome(0.0)
    late = [operation(began, 0.1, "info", "91", rrn="late") for began in (9, 11)]
    expect_unnoticed(rig(late[0], operation(10, 0.1, "ok", "00"), late[1]), 10, outcome)
    assert outcome.broken == []
    expect_unnoticed(rig(late[0], late[1], operation(12, 0.1, "info", "91")), 10, outcome)
    assert outcome.broken == ["1 of 2 decisions failed (91 × 1, after up to 0.1 s)"]


def test_a_repeat_of_a_message_in_flight_when_the_fault_began_is_its_failure() -> None:
    outcome = Outcome(0.0)
    expect_unnoticed(rig(operation(9, 2.0, "info", "91"), operation(11.1, 0.1, "info", "91")), 10, outcome)
    assert outcome.broken == ["1 of 1 decisions failed (91 × 1, after up to 0.1 s)"]
