"""A network's own decision replaces the platform's, in the record and by an event."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.authorization.follow_up import FollowUpRecord
from engine.ids import Derived, derive
from tests.support.engine.build import PROGRAMME, account
from tests.support.engine.desk import SALE, Desk

FUNDS = 10_000


def advised(desk: Desk, amount_minor: int, **parts: Any) -> tuple[FollowUpRecord, list[Any]]:
    """The record of an advice, and the decisions that its events announce."""
    assert desk.advise(amount_minor, approval_code="A1B2C3", **parts) == "00"
    done = desk.done[-1]
    assert isinstance(done.outcome, FollowUpRecord)
    decided_events = [event for event in done.events if event.type == "authorization.decided"]
    assert [event.id for event in decided_events] in ([], [derive(last_id(desk), Derived.EVENT_FIRST)])
    return done.outcome, [msgspec.json.decode(event.data) for event in decided_events]


def last_id(desk: Desk) -> str:
    return f"{0x30_0000 + desk.number:08x}-0000-7000-8000-0000000000a7"


@pytest.mark.parametrize(
    ("asked", "advice", "decided"),
    [
        # The requested amount; the amount and other parts of the advice; the replacing decision.
        (1_000, (1_000, {"stand_in": True}), "approved"),
        (1_000, (1_000, {"stand_in": True, "approved": False}), "declined"),
        (FUNDS + 1, (FUNDS + 1, {"stand_in": True}), "approved"),
        (FUNDS + 1, (FUNDS + 1, {}), "approved"),
        # Corrections of an amount, and advices that agree with a decline.
        (1_000, (1_000, {}), None),
        (1_000, (700, {}), None),
        (FUNDS + 1, (FUNDS + 1, {"stand_in": True, "approved": False}), None),
        (FUNDS + 1, (FUNDS + 1, {"approved": False}), None),
    ],
)
def test_advice_replaces_a_decision(
    asked: int, advice: tuple[int, dict[str, Any]], decided: str | None
) -> None:
    desk = Desk()
    desk.authorize(asked)
    first = desk.done[-1].events[0]
    original = desk.known[f"n:{SALE}"]
    record, decided_events = advised(desk, advice[0], **advice[1])
    assert record.decided == decided
    assert len(decided_events) == (decided is not None)
    if decided is None:
        return
    assert decided_events[0]["supersedes"] == first.id
    assert (decided_events[0]["authorization_id"], decided_events[0]["programme_id"]) == (
        original.id,
        PROGRAMME,
    )
    assert (decided_events[0]["decision"], decided_events[0]["decided_by"]) == (decided, "network_stand_in")
    approved = decided == "approved"
    assert decided_events[0]["approved_amount"] == (f"{advice[0] / 100:.2f}" if approved else "0.00")
    assert decided_events[0]["hold_id"] == (original.hold_id if approved else None)
    assert decided_events[0].get("decline_reason") == (None if approved else "stand_in_declined")
    assert record.approval_code == ("A1B2C3" if approved else None)
    assert (original.decline_reason, desk.account.held_minor) == (None, advice[0] if approved else 0)


def test_advice_without_a_request_supersedes_nothing() -> None:
    desk = Desk()
    record, decided_events = advised(desk, 1_000, stand_in=True)
    assert record.decided is None
    assert [(each["decided_by"], "supersedes" in each) for each in decided_events] == [
        ("network_stand_in", False)
    ]


def test_advice_of_a_reversed_sale_replaces_no_decision() -> None:
    desk = Desk(account=account())
    desk.authorize(1_000)
    desk.reverse()
    record, decided_events = advised(desk, 1_000, stand_in=True)
    assert (record.decided, record.remark, decided_events) == (None, "nothing_held", [])
