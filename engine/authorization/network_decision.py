"""The network's own decision, which it makes without an answer in time and reports in an advice (0120).

It replaces the platform's decision, because the merchant acted on it. An advice replaces a decision if it
says that the network stood in (DE48 tag 11), or if it approves a sale that the platform declined or an edge
reversed. Every other advice only corrects an amount.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.authorization.effects import AuthorizationOpened, AuthorizationUpdated
from engine.authorization.events import Event, event
from engine.authorization.follow_up import FollowUpResult
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.commands import Advise
from engine.currencies import merchant_members
from engine.ids import Derived, derive
from engine.money import format_minor


def with_decision(command: Advise, original: Authorization | None, result: FollowUpResult) -> FollowUpResult:
    """``result`` with the replacing decision in its record, if there is one. Call it before the effects are
    applied."""
    if result.record is None:
        return result
    decided = None
    if original is not None and not _opens(result) and _replaces(command, original, result):
        decided = "approved" if command.approved else "declined"
    approval_code = command.approval_code if command.approved else None
    record = msgspec.structs.replace(result.record, decided=decided, approval_code=approval_code)
    return msgspec.structs.replace(result, record=record)


def _opens(result: FollowUpResult) -> bool:
    """Whether the advice opened a transaction of its own, which has no earlier decision."""
    return any(isinstance(effect, AuthorizationOpened) for effect in result.effects)


def _replaces(command: Advise, original: Authorization, result: FollowUpResult) -> bool:
    if original.decline_reason is None:
        return (command.stand_in and original.closed is None) or _reopens(original, result)
    return any(
        isinstance(effect, AuthorizationUpdated) and effect.decline_reason is None
        for effect in result.effects
    )


def _reopens(original: Authorization, result: FollowUpResult) -> bool:
    """Whether the advice reopens a sale that an edge reversed."""
    return original.closed is not None and any(
        isinstance(effect, AuthorizationUpdated) and effect.closed is None for effect in result.effects
    )


def superseding_event(
    command: Advise, card: Card, original: Authorization, result: FollowUpResult
) -> tuple[Event, ...]:
    """The ``authorization.decided`` of a replacing decision. Call it after the effects were applied.

    ``supersedes`` names the event of the first decision on the authorization.
    """
    record = result.record
    if record is None or record.decided is None:
        return ()
    approved = record.decided == "approved"
    data: dict[str, Any] = {
        "authorization_id": original.id,
        "card_id": card.id,
        "programme_id": card.programme_id,
        "amount": format_minor(command.amount_minor),
        "currency": command.currency,
        "decision": record.decided,
        "approved_amount": format_minor(command.amount_minor if approved else 0),
        "decided_by": "network_stand_in",
        "risk": {"score": 0, "action": "allow"},
        "hold_id": original.hold_id if approved else None,
        "network_txn_id": original.network_txn_id,
        "supersedes": derive(original.id, Derived.EVENT_FIRST),
    }
    if not approved:
        data["decline_reason"] = "stand_in_declined"
    data |= merchant_members(command.merchant_amount)
    return (event(derive(command.id, Derived.EVENT_FIRST), "authorization.decided", data),)
