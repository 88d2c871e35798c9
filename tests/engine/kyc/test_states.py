"""The states of a case: the legal transitions, and the ``kyc_state`` of a cardholder."""

from __future__ import annotations

import itertools

import pytest

from engine.kyc.states import COMPLETED, EXPIRING, STATES, TRANSITIONS, cardholder_state

LEGAL = {
    ("pending", "pending"),
    ("pending", "in_review"),
    ("pending", "passed"),
    ("pending", "failed"),
    ("pending", "expired"),
    ("in_review", "passed"),
    ("in_review", "failed"),
    ("in_review", "pending"),
    ("passed", "expired"),
}


@pytest.mark.parametrize(("before", "after"), list(itertools.product(STATES, STATES)))
def test_legal_transitions(before: str, after: str) -> None:
    assert (after in TRANSITIONS[before]) == ((before, after) in LEGAL)  # type: ignore[index]


def test_completed_and_expiring_states() -> None:
    assert {"passed", "failed", "expired"} == COMPLETED
    assert {state for state in STATES if "expired" in TRANSITIONS[state]} == EXPIRING


@pytest.mark.parametrize(
    ("newest_first", "shown"),
    [
        ([], None),
        (["pending"], "pending"),
        (["in_review"], "in_review"),
        (["passed"], "passed"),
        (["failed"], "failed"),
        (["expired"], "expired"),
        (["pending", "passed"], "passed"),
        (["in_review", "passed"], "passed"),
        (["expired", "passed"], "passed"),
        (["failed", "passed"], "failed"),
        (["pending", "failed", "passed"], "pending"),
        (["expired", "failed", "passed"], "expired"),
        (["passed", "failed"], "passed"),
        (["pending", "expired"], "pending"),
        (["pending", "expired", "expired"], "pending"),
    ],
)
def test_kyc_state_of_a_cardholder(newest_first: list[str], shown: str | None) -> None:
    assert cardholder_state(newest_first) == shown
