"""A network that gets no answer in time decides in the platform's stead and reports it with an advice (0120).

Such a decision replaces the one that stood before, because the merchant acted on it. An advice replaces a
decision when it says that the network stood in (DE48 tag 11), or when it approves what was declined here or
undone by an edge; any other advice only corrects an amount.
"""

from __future__ import annotations

from typing import Any

import msgspec

from engine.authorization.effects import AuthorizationMoved, AuthorizationOpened
from engine.authorization.events import Event, event
from engine.authorization.lifecycle import LifecycleResult
from engine.cards.authorization import Authorization
from engine.cards.card import Card
from engine.commands import Advise
from engine.ids import Derived, derive
from engine.money import format_minor


def mark(command: Advise, original: Authorization | None, outcome: LifecycleResult) -> LifecycleResult:
    """``outcome`` with the replacing decision in its record, if there is one; to be called before the effects
    are applied."""
    if outcome.record is None:
        return outcome
    decided = None
    if original is not None and not _opens(outcome) and _replaces(command, original, outcome):
        decided = "approved" if command.approved else "declined"
    approval_code = command.approval_code if command.approved else None
    record = msgspec.structs.replace(outcome.record, decided=decided, approval_code=approval_code)
    return msgspec.structs.replace(outcome, record=record)


def _opens(outcome: LifecycleResult) -> bool:
    """Whether the advice began a transaction of its own, which has no decision before it."""
    return any(isinstance(effect, AuthorizationOpened) for effect in outcome.effects)


def _replaces(command: Advise, original: Authorization, outcome: LifecycleResult) -> bool:
    if original.decline_reason is None:
        return (command.stand_in and original.closed is None) or _revives(original, outcome)
    return any(
        isinstance(effect, AuthorizationMoved) and effect.decline_reason is None for effect in outcome.effects
    )


def _revives(original: Authorization, outcome: LifecycleResult) -> bool:
    """Whether the advice holds again what an edge had undone."""
    return original.closed is not None and any(
        isinstance(effect, AuthorizationMoved) and effect.closed is None for effect in outcome.effects
    )


def superseding(
    command: Advise, card: Card, original: Authorization, outcome: LifecycleResult
) -> tuple[Event, ...]:
    """The ``authorization.decided`` of a replacing decision, to be called after the effects were applied.

    ``supersedes`` names the event of the first decision on the authorization.
    """
    record = outcome.record
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
    return (event(derive(command.id, Derived.EVENT_FIRST), "authorization.decided", data),)
