"""A back-test by a model that knows nothing of the engine: lists of sales, searched from the start each time.

It covers purchases, presentments in full, reversals in full, loads, expiry, merchant categories and the three
caps, in UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

DAY = 86_400_000


@dataclass(frozen=True)
class Limits:
    """The controls of the card; ``None`` is no limit."""

    refused_mccs: frozenset[str] = frozenset()
    per_sale: int | None = None
    per_day_count: int | None = None
    per_day_amount: int | None = None


@dataclass(frozen=True)
class Move:
    """One message. ``sale`` is the number of the purchase that it is, or that it is about."""

    kind: Literal["buy", "present", "reverse", "load"]
    at_ms: int
    sale: int = 0
    amount: int = 0
    mcc: str = ""


@dataclass
class Sale:
    """One purchase of a run."""

    at_ms: int
    amount: int
    approved: bool
    state: Literal["held", "posted", "reversed"] = "held"
    forever: bool = False
    """Assumed to be presented."""


@dataclass
class Run:
    """One run over the moves."""

    hold_days: int
    sales: dict[int, Sale] = field(default_factory=dict)
    loaded: int = 0

    def available(self, now_ms: int) -> int:
        """The money that is left."""
        taken = 0
        for sale in self.sales.values():
            lapsed = not sale.forever and now_ms >= sale.at_ms + self.hold_days * DAY
            if sale.approved and (sale.state == "posted" or (sale.state == "held" and not lapsed)):
                taken += sale.amount
        return self.loaded - taken

    def approves(self, move: Move, limits: Limits) -> bool:
        """Whether a purchase is approved."""
        today = [
            sale
            for sale in self.sales.values()
            if sale.approved and sale.at_ms // DAY == move.at_ms // DAY and sale.state != "reversed"
        ]
        return not (
            move.mcc in limits.refused_mccs
            or (limits.per_sale is not None and move.amount > limits.per_sale)
            or (limits.per_day_count is not None and len(today) >= limits.per_day_count)
            or (
                limits.per_day_amount is not None
                and sum(sale.amount for sale in today) + move.amount > limits.per_day_amount
            )
            or move.amount > self.available(move.at_ms)
        )


def lived(
    moves: list[Move], before: Limits, after: Limits, from_ms: int, hold_days: int, assume_presented: bool
) -> tuple[dict[int, bool], dict[int, bool]]:
    """The decisions of both runs by sale, for the purchases from ``from_ms`` on."""
    recorded, changed = Run(hold_days), Run(hold_days)
    for move in moves:
        if move.kind == "load":
            recorded.loaded += move.amount
            changed.loaded += move.amount
        elif move.kind == "buy":
            old = recorded.approves(move, before)
            new = changed.approves(move, after if move.at_ms >= from_ms else before)
            recorded.sales[move.sale] = Sale(move.at_ms, move.amount, old)
            forever = new and not old and assume_presented
            changed.sales[move.sale] = Sale(move.at_ms, move.amount, new, forever=forever)
        else:
            _follow(move, recorded, changed)
    decided = [number for number, sale in recorded.sales.items() if sale.at_ms >= from_ms]
    return (
        {number: recorded.sales[number].approved for number in decided},
        {number: changed.sales[number].approved for number in decided},
    )


def _follow(move: Move, recorded: Run, changed: Run) -> None:
    """A presentment or reversal of a sale that the recorded run approved and that is still open there."""
    old, new = recorded.sales[move.sale], changed.sales[move.sale]
    state: Literal["posted", "reversed"] = "posted" if move.kind == "present" else "reversed"
    lapsed = move.at_ms >= old.at_ms + recorded.hold_days * DAY
    for sale in (old, new):
        if sale.approved and (state == "posted" or not lapsed):
            sale.state = state
