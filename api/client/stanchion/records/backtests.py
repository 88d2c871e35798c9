"""Back-tests."""

from __future__ import annotations

from typing import Any, Literal

from stanchion.compat import TypedDict

BacktestState = Literal["queued", "running", "done", "failed", "cancelled"]
FlipDirection = Literal["approved_to_declined", "declined_to_approved"]


class BacktestScope(TypedDict):
    """The cards to which the change of a back-test applies."""

    type: Literal["programme", "card_product", "card"]
    id: str


class BacktestProgress(TypedDict):
    """Cards of the scope whose histories were lived, and all of them once they are counted."""

    cards_done: int
    cards: int | None


class BacktestBaseline(TypedDict):
    """The recorded decisions, made again with the unchanged controls and rules."""

    decisions: int
    mismatches: int
    examples: list[str]
    cards_left_out: int


class BacktestSide(TypedDict):
    """The decisions of one of the two runs."""

    decisions: int
    approved: int
    declined: int
    approved_amount: str
    not_sent: int


class FlipCount(TypedDict):
    """A number of decisions, and the amount that one of the runs approves."""

    count: int
    amount: str


class FlipCounts(TypedDict):
    """The decisions that a change turns."""

    approved_to_declined: FlipCount
    declined_to_approved: FlipCount


class RuleFlips(FlipCounts):
    """Those of one rule."""

    rule: str


class MccFlips(FlipCounts):
    """Those of one merchant category."""

    mcc: str


class DayFlips(FlipCounts):
    """Those of one day."""

    day: str


# ``from`` is no name in Python, so this type has the functional form.
Backtest = TypedDict(
    "Backtest",
    {
        "id": str,
        "scope": BacktestScope,
        "from": str,
        "to": str,
        "change": dict[str, Any],
        "assume_presented": bool,
        "state": BacktestState,
        "failure": str | None,
        "progress": BacktestProgress,
        "currency": str,
        "baseline": BacktestBaseline | None,
        "before": BacktestSide | None,
        "after": BacktestSide | None,
        "flips": FlipCounts | None,
        "by_rule": list[RuleFlips] | None,
        "by_mcc": list[MccFlips] | None,
        "by_day": list[DayFlips] | None,
        "as_of": str | None,
        "created_at": str,
        "started_at": str | None,
        "completed_at": str | None,
    },
)
"""A back-test; its figures are there once it is ``done``."""


class Flip(TypedDict):
    """A decision that a change turns; ``before`` and ``after`` have their traces."""

    id: str
    authorization_id: str
    card_id: str
    decided_at: str
    operation: Literal["authorization", "increment"]
    direction: FlipDirection
    rule: str
    amount: str
    currency: str
    mcc: str
    before: dict[str, Any]
    after: dict[str, Any]
