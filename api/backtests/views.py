"""The public representation of back-tests and of the decisions that they turn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

import asyncpg
import msgspec
from pydantic import Field

from api.http.fields import Id, Instant, Mcc, ShownAmount, shown_instant
from api.http.validation import View
from api.transactions.replay import DecisionView, show_decision
from api.transactions.views import decode_decision
from engine.backtests.plan import ScopeType
from engine.backtests.tally import Count, Direction, Flips, Side, Tally
from engine.limits import BACKTEST_GROUPS_SHOWN_MAX
from engine.money import format_minor

State = Literal["queued", "running", "done", "failed", "cancelled"]
Failure = Literal["baseline_mismatch", "interrupted", "too_slow", "internal_error"]

SELECT: Final = """
    SELECT r.id::text, r.scope_type, r.scope_id::text, r.currency, r.from_at, r.to_at, r.shown_change,
        (r.plan::json ->> 'assume_presented')::boolean AS assume_presented, r.state, r.failure, r.created_at,
        r.started_at, r.completed_at, r.cards, r.result, least(r.to_at, r.started_at) AS as_of,
        (SELECT coalesce(sum(g.cards_done), 0) FROM backtest_ranges g WHERE g.backtest_id = r.id)
            AS cards_done
    FROM backtests r
"""
FLIPS: Final = """
    SELECT r.id::text, r.authorization_id::text, r.card_id::text, r.decided_at, r.operation, r.direction,
        r.rule, r.amount_minor, r.currency, r.mcc, r.before, r.after
    FROM backtest_flips r
"""
COUNTED: Final = """EXISTS (SELECT FROM backtest_ranges g WHERE g.backtest_id = r.backtest_id
    AND g.number = r.number AND g.attempt = r.attempt AND g.state = 'done')"""
"""The flips of ranges that are done; those of interrupted attempts do not count."""

decode_tally = msgspec.json.Decoder(Tally).decode


class ScopeView(View):
    """The cards to which the change applies."""

    type: ScopeType
    id: Id


class ProgressView(View):
    """Cards of the scope whose histories were lived, and all of them (`null` until they are counted)."""

    cards_done: int
    cards: int | None


class BaselineView(View):
    """The recorded decisions of the window, made again with the unchanged controls."""

    decisions: int
    mismatches: int
    """Decisions that came out with other bytes; the back-test has then failed."""
    examples: list[Id]
    """The first mismatches, by the id of the authorization or the increment."""
    cards_left_out: int
    """Cards that are in no other figure: an earlier release decided about their messages by other rules, or
    their history is too long."""


class SideView(View):
    """The decisions of the window in one of the two runs."""

    decisions: int
    approved: int
    declined: int
    approved_amount: ShownAmount
    """The approved amount of purchases and increments."""
    not_sent: int
    """Increments that a merchant does not send, because their sale is declined in this run."""


class CountView(View):
    """A number of decisions, and the amount that one of the runs approves."""

    count: int
    amount: ShownAmount


class FlipsView(View):
    """The decisions that the change turns."""

    approved_to_declined: CountView
    declined_to_approved: CountView


class RuleFlipsView(FlipsView):
    """The turned decisions of one rule: the one that declines in one of the runs."""

    rule: str


class MccFlipsView(FlipsView):
    """The turned decisions of one merchant category."""

    mcc: Mcc


class DayFlipsView(FlipsView):
    """The turned decisions of one day of the programme's time zone."""

    day: str


class BacktestView(View):
    """A back-test. It is deleted 30 days after its creation.

    The figures are `null` until it is `done`, or has `failed` with the failure `baseline_mismatch`.
    """

    id: Id
    scope: ScopeView
    from_: Annotated[Instant, Field(alias="from")]
    to: Instant
    change: dict[str, Any]
    """The change as it was requested."""
    assume_presented: bool
    """The assumption about purchases that only the change approves: presented in full (`true`), or lapsed."""
    state: State
    failure: Failure | None
    """`baseline_mismatch`: recorded decisions were not reproduced. `interrupted`: several tasks ended in the
    middle of the same cards; create it again. `too_slow`: choose a smaller scope."""
    progress: ProgressView
    currency: str
    baseline: BaselineView | None
    before: SideView | None
    after: SideView | None
    flips: FlipsView | None
    by_rule: list[RuleFlipsView] | None
    """At most 200 rows, as in `by_mcc`; the largest first."""
    by_mcc: list[MccFlipsView] | None
    by_day: list[DayFlipsView] | None
    as_of: Instant | None
    """The instant before which decisions are in it: `to`, or its start if that was earlier."""
    created_at: Instant
    started_at: Instant | None
    completed_at: Instant | None


class FlipView(View):
    """A decision that the change turns."""

    id: Id
    """The id of the authorization, or of the increment."""
    authorization_id: Id
    card_id: Id
    decided_at: Instant
    operation: Literal["authorization", "increment"]
    direction: Direction
    rule: str
    """The rule that declines in one of the runs."""
    amount: ShownAmount
    """The amount that one of the runs approves."""
    currency: str
    mcc: Mcc
    before: DecisionView
    """The recorded decision."""
    after: DecisionView
    """The decision under the change."""


def show(row: asyncpg.Record) -> dict[str, Any]:
    """A row of ``SELECT``."""
    instants = {
        name: row[name] and shown_instant(row[name])
        for name in ("as_of", "created_at", "started_at", "completed_at")
    }
    return {
        "id": row["id"],
        "scope": {"type": row["scope_type"], "id": row["scope_id"]},
        "from": shown_instant(row["from_at"]),
        "to": shown_instant(row["to_at"]),
        "change": msgspec.json.decode(row["shown_change"]),
        "assume_presented": row["assume_presented"] is not False,
        "state": row["state"],
        "failure": row["failure"],
        "progress": {"cards_done": int(row["cards_done"]), "cards": row["cards"]},
        "currency": row["currency"],
        **_figures(None if row["result"] is None else decode_tally(row["result"])),
        **instants,
    }


def show_flip(row: asyncpg.Record) -> dict[str, Any]:
    """A row of ``FLIPS``."""
    return {
        **{name: row[name] for name in _FLIP_MEMBERS},
        "decided_at": shown_instant(row["decided_at"]),
        "amount": format_minor(row["amount_minor"]),
        "before": show_decision(decode_decision(row["before"])),
        "after": show_decision(decode_decision(row["after"])),
    }


_FLIP_MEMBERS: Final = (
    "id",
    "authorization_id",
    "card_id",
    "operation",
    "direction",
    "rule",
    "currency",
    "mcc",
)


def _figures(tally: Tally | None) -> dict[str, Any]:
    if tally is None:
        names = ("baseline", "before", "after", "flips", "by_rule", "by_mcc", "by_day")
        return dict.fromkeys(names)
    return {
        "baseline": {
            "decisions": tally.decisions,
            "mismatches": tally.mismatches,
            "examples": tally.examples,
            "cards_left_out": tally.cards_left_out,
        },
        "before": _side(tally.before),
        "after": _side(tally.after),
        "flips": _flips(tally.flips),
        "by_rule": _groups("rule", tally.by_rule),
        "by_mcc": _groups("mcc", tally.by_mcc),
        "by_day": [{"day": day} | _flips(flips) for day, flips in sorted(tally.by_day.items())],
    }


def _side(side: Side) -> dict[str, Any]:
    return {
        "decisions": side.decisions,
        "approved": side.approved,
        "declined": side.declined,
        "approved_amount": format_minor(side.approved_minor),
        "not_sent": side.not_sent,
    }


def _flips(flips: Flips) -> dict[str, Any]:
    return {
        "approved_to_declined": _count(flips.approved_to_declined),
        "declined_to_approved": _count(flips.declined_to_approved),
    }


def _count(count: Count) -> dict[str, Any]:
    return {"count": count.count, "amount": format_minor(count.amount_minor)}


def _groups(name: str, groups: Mapping[str, Flips]) -> list[dict[str, Any]]:
    def size(item: tuple[str, Flips]) -> tuple[int, str]:
        flips = item[1]
        return -flips.approved_to_declined.count - flips.declined_to_approved.count, item[0]

    largest = sorted(groups.items(), key=size)[:BACKTEST_GROUPS_SHOWN_MAX]
    return [{name: key} | _flips(flips) for key, flips in largest]
