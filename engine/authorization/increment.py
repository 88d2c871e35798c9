"""The effects of an approved increment in managed mode."""

from __future__ import annotations

from engine.authorization.effects import (
    AuthorizationUpdated,
    Effect,
    HoldPlaced,
    HoldResized,
    UsageCounted,
)
from engine.authorization.follow_up import updated
from engine.cards.account import Account
from engine.cards.authorization import Authorization, OriginalView, open_hold
from engine.cards.hold import Hold
from engine.commands import Authorize
from engine.decision.decide import Decision
from engine.ids import Derived, derive


def raise_hold(
    command: Authorize,
    decision: Decision,
    original: Authorization,
    account: Account | None,
    original_view: OriginalView,
) -> tuple[Effect, ...]:
    """Raise the hold. If it has lapsed, place a new hold for the lapsed amount and the increment."""
    delta_minor = decision.approved_minor
    counted = UsageCounted(decision.day, delta_minor, 0)
    hold = open_hold(original, account)
    assert decision.hold_expires_ms is not None, "managed purchases hold"
    if hold is not None:
        total_minor = hold.amount_minor + delta_minor
        expires_ms = max(hold.expires_ms, decision.hold_expires_ms)
        resized = HoldResized(hold.id, total_minor, expires_ms)
        return counted, resized, updated(original, approved_minor=delta_minor, held_minor=total_minor)
    total_minor = original_view.lapsed_minor + delta_minor
    hold = Hold(
        derive(command.id, Derived.HOLD), original.card_id, original.id, total_minor, decision.hold_expires_ms
    )
    update = updated(original, approved_minor=delta_minor, held_minor=total_minor, hold_id=hold.id)
    return counted, HoldPlaced(hold), update


def approve_and_reverse(
    decision: Decision, original: Authorization, original_view: OriginalView
) -> AuthorizationUpdated:
    """An approved increment whose reversal came first: it is approved and reversed in one update, and the
    held amount stays."""
    return updated(
        original,
        approved_minor=decision.approved_minor,
        reversed_minor=decision.approved_minor,
        held_minor=original_view.held_minor,
        remainder_minor=original.remainder_minor,
    )
