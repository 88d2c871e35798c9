"""The checks of a history: a correct history passes, and each violation is found by its own check only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine.iso8583.identity import late_reversal_key
from ops.histories.check import LATE_SECONDS, JournalRow, judge
from ops.histories.operations import History, Operation
from tests.support.engine.build import key

CARD = "01900000-0000-7000-8000-0000000000a7"


def operation(number: int, began: float, **parts: Any) -> Operation:
    made = Operation(
        card_id=CARD,
        kind="authorize",
        stan=f"{number:06d}",
        transmitted_at="1121100000",
        rrn=f"632510{number:06d}",
        amount_minor=100,
        began=began,
        ended=began + 0.1,
        outcome="ok",
        response_code="00",
        authorization_id=f"a{number}",
        approved_minor=100,
    )
    return msgspec.structs.replace(made, **parts)


def row(number: int, seq: int, **parts: Any) -> JournalRow:
    identity = (f"{number:06d}", "1121100000", f"632510{number:06d}")
    made = JournalRow(CARD, seq, 1, "authorize", identity, "00", f"a{number}", key(number), 100)
    return msgspec.structs.replace(made, **parts)


OPERATIONS = [
    operation(1, 0.0),
    operation(1, 0.5),
    operation(2, 1.0, response_code="51", approved_minor=0),
    operation(3, 2.0, outcome="info", ended=None, response_code=None, authorization_id=None),
    operation(4, 2.0, outcome="fail", response_code=None, authorization_id=None),
    operation(5, 3.0, kind="reverse"),
    operation(6, 4.0, outcome="info", response_code="91", authorization_id=None),
    operation(7, 4.5, outcome="info", response_code="96", authorization_id=None),
    operation(7, 5.0, outcome="info", response_code="91", authorization_id=None),
]
ROWS = [
    row(1, 1),
    row(2, 2, response_code="51"),
    row(3, 3),
    row(5, 4, kind="reverse"),
    row(7, 5, held_minor=0),
    row(7, 6, kind="reverse", command_key=late_reversal_key(key(7))),
]


def broken(operations: list[Operation], rows: list[JournalRow]) -> set[str]:
    return {finding.promise for finding in judge(operations, rows) if finding.broken}


def test_a_correct_history_passes_every_check() -> None:
    assert broken(OPERATIONS, ROWS) == set()
    assert all(finding.subjects for finding in judge(OPERATIONS, ROWS))


def with_operation(at: int, **parts: Any) -> Callable[[], set[str]]:
    changed = [*OPERATIONS]
    changed[at] = msgspec.structs.replace(changed[at], **parts)
    return lambda: broken(changed, ROWS)


@pytest.mark.parametrize(
    ("violation", "promise"),
    [
        (lambda: broken(OPERATIONS, ROWS[1:]), "every answer to a client is in the journal"),
        (with_operation(0, response_code="51"), "every answer to a client is in the journal"),
        (with_operation(1, authorization_id="a9"), "all answers to one message agree"),
        (lambda: broken(OPERATIONS, [*ROWS, row(1, 5)]), "no message is executed twice"),
        (lambda: broken(OPERATIONS, [*ROWS, row(4, 5)]), "unsent messages have no effect"),
        (with_operation(1, ended=0.5 + LATE_SECONDS + 0.1), "no approval is answered after its deadline"),
        (
            lambda: broken(OPERATIONS, [row(2, 1, response_code="51"), row(1, 2), *ROWS[2:]]),
            "journal order respects real time",
        ),
        (
            lambda: broken(OPERATIONS, [*ROWS, row(6, 7)]),
            "an authorization answered only with 91 or 96 holds nothing",
        ),
        (
            lambda: broken(
                OPERATIONS, [*ROWS, row(1, 7, kind="reverse", command_key=late_reversal_key(key(1)))]
            ),
            "an approval answered in time is not reversed as late",
        ),
    ],
)
def test_each_violation_of_a_history_is_found(violation: Callable[[], set[str]], promise: str) -> None:
    assert promise in violation()


def test_overlapping_operations_may_be_in_any_order() -> None:
    both = [operation(1, 0.0, ended=2.0), operation(2, 1.0, ended=3.0)]
    assert broken(both, [row(2, 1), row(1, 2)]) == set()


def test_an_operation_without_an_end_is_unknown() -> None:
    history = History()
    asked = history.begin(operation(1, 0.0, outcome="info", ended=None))
    assert (asked.outcome, asked.ended) == ("info", None)
    assert list(history.since(asked.began)) == [asked]
    history.end(asked, "ok")
    assert asked.ended is not None
    assert asked.ended >= asked.began
