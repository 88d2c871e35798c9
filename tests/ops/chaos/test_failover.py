"""The answers that count against a drill: first ones, while there is no primary."""

from __future__ import annotations

import pytest

from ops.chaos.failover import new_answers
from ops.histories.operations import Operation, Outcome


def operation(stan: str, began: float, ended: float | None, outcome: Outcome = "ok") -> Operation:
    return Operation(
        card_id="card-1",
        kind="authorize",
        stan=stan,
        transmitted_at="1123101500",
        rrn="000000000001",
        amount_minor=100,
        began=began,
        ended=ended,
        outcome=outcome,
    )


BEFORE = operation("000001", 1.0, 2.0)


@pytest.mark.parametrize(
    ("meanwhile", "counted"),
    [
        (operation("000002", 11.0, 12.0), 1),
        (operation("000002", 11.0, 12.0, "info"), 0),
        (operation("000002", 11.0, None), 0),
        (operation("000002", 11.0, 21.0), 0),
        (operation("000002", 9.0, 12.0), 0),
        (operation("000001", 11.0, 12.0), 0),
    ],
    ids=["answer", "no answer", "no end", "after the promotion", "sent before the fault", "repeated answer"],
)
def test_only_first_answers_while_there_is_no_primary_count(meanwhile: Operation, counted: int) -> None:
    assert new_answers([BEFORE, meanwhile], began=10.0, ended=20.0) == counted
