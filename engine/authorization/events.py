"""Event payloads (``ops/docs/WEBHOOKS.md``).

An event is written in the transaction of its cause. ``data`` is final: every delivery of the event carries
these bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from engine.authorization.effects import (
    AuthorizationOpened,
    Effect,
    HoldClosed,
    HoldPlaced,
    HoldResized,
    Transferred,
    UsageCounted,
)
from engine.authorization.follow_up import FollowUpResult
from engine.cards.account import Account
from engine.cards.card import Card, card_view
from engine.cards.hold import Hold
from engine.commands import Advise, Authorize, ChangeCard, CreateCard, Present, ReplaceCard, Reverse
from engine.currencies import merchant_members
from engine.decision.decide import Decision
from engine.ids import Derived, derive
from engine.instant import to_text
from engine.money import format_minor
from engine.programmes.programme import ProgrammeConfig


class Event(msgspec.Struct, frozen=True, eq=False, gc=False):
    """An event: its id, its type, and a function that makes the members of its data.

    Most events are stored without data, so members are made and encoded on demand. They are those of the
    event's instant: the function reads no state that changes later.
    """

    id: str
    type: str
    members: Callable[[], dict[str, Any]]

    @property
    def data(self) -> str:
        """The exact JSON of the event's deliveries."""
        return msgspec.json.encode(self.members()).decode()

    def __eq__(self, other: object) -> bool:
        """Compare the data and not the functions that make them."""
        return isinstance(other, Event) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]


def _fields(event: Event) -> tuple[str, str, str]:
    return event.id, event.type, event.data


def event(id_: str, type_: str, data: dict[str, Any]) -> Event:
    """An event with ``data``, in the order of its members."""
    return Event(id_, type_, lambda: data)


def authorization_events(
    command: Authorize,
    card: Card,
    account: Account | None,
    decision: Decision,
    effects: tuple[Effect, ...],
    authorization_id: str,
    now_ms: int,
) -> tuple[Event, ...]:
    """The events of a decision: ``authorization.decided``, and those of a new hold, its release and a
    refund's entry.

    An increment publishes no hold event. ``authorization_id`` names the authorization that was decided or
    raised.
    """
    funds = account if authorization_id == command.id else None
    hold: Hold | None = None
    events: list[Event] = []
    for effect in effects:
        if isinstance(effect, HoldPlaced):
            hold = effect.hold
        if funds is None:
            continue
        if isinstance(effect, HoldPlaced):
            events.append(_hold_created(command.id, authorization_id, funds, effect.hold, now_ms))
        elif isinstance(effect, HoldClosed) and hold is not None:
            events.append(
                _hold_released(command.id, authorization_id, hold.id, hold.amount_minor, funds, now_ms)
            )
        elif isinstance(effect, Transferred):
            events.append(entry_posted(command.id, effect, funds, now_ms))
    hold_id = None if hold is None else hold.id
    members = partial(_decided, command, card.id, card.programme_id, decision, authorization_id, hold_id)
    return (Event(derive(command.id, Derived.EVENT_FIRST), "authorization.decided", members), *events)


def follow_up_events(
    command: Reverse | Present | Advise,
    card: Card,
    account: Account | None,
    result: FollowUpResult,
    authorization_id: str | None,
    held_before: bool,
    now_ms: int,
) -> tuple[Event, ...]:
    """The events of a reversal, a presentment or an advice. Partial reversals and resized holds publish
    none."""
    if account is None or result.record is None:
        return _advised(command, card, result) if isinstance(command, Advise) else ()
    transferred = next((effect for effect in result.effects if isinstance(effect, Transferred)), None)
    if isinstance(command, Present) and transferred is not None:
        if result.record.type == "capture" and held_before:
            return (_hold_captured(command, transferred, result, account, now_ms),)
        return (entry_posted(command.id, transferred, account, now_ms),)
    if isinstance(command, Advise):
        return _advised(command, card, result) + _advised_hold(
            command, account, result, authorization_id, now_ms
        )
    released = next((effect for effect in result.effects if isinstance(effect, HoldClosed)), None)
    if released is not None and authorization_id is not None:
        released_minor = result.record.amount_minor
        return (
            _hold_released(command.id, authorization_id, released.hold_id, released_minor, account, now_ms),
        )
    return () if transferred is None else (entry_posted(command.id, transferred, account, now_ms),)


def _decided(
    command: Authorize,
    card_id: str,
    programme_id: str,
    decision: Decision,
    authorization_id: str,
    hold_id: str | None,
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "authorization_id": authorization_id,
        "card_id": card_id,
        "programme_id": programme_id,
        "amount": format_minor(command.amount_minor),
        "currency": command.currency,
        "decision": decision.decision,
        "approved_amount": format_minor(decision.approved_minor),
        "decided_by": decision.decided_by,
        "risk": {"score": decision.risk_score, "action": decision.risk_action},
        "hold_id": hold_id,
        "network_txn_id": command.wire.network_txn_id,
    }
    if decision.reason:
        data["decline_reason"] = decision.reason
    if decision.decline_detail:
        data["decline_detail"] = decision.decline_detail
    if authorization_id != command.id:
        data["operation"] = "increment"
    if command.merchant_amount is not None:
        data |= merchant_members(command.merchant_amount)
    return data


def _advised(command: Advise, card: Card, result: FollowUpResult) -> tuple[Event, ...]:
    """The ``authorization.decided`` of a network's own decision, if it is the first on its authorization."""
    opened = next((effect for effect in result.effects if isinstance(effect, AuthorizationOpened)), None)
    if opened is None:
        return ()
    authorization = opened.authorization
    data: dict[str, Any] = {
        "authorization_id": authorization.id,
        "card_id": card.id,
        "programme_id": card.programme_id,
        "amount": format_minor(authorization.requested_minor),
        "currency": authorization.currency,
        "decision": "approved" if command.approved else "declined",
        "approved_amount": format_minor(authorization.approved_minor),
        "decided_by": "network_stand_in",
        "risk": {"score": 0, "action": "allow"},
        "hold_id": authorization.hold_id,
        "network_txn_id": authorization.network_txn_id,
    }
    if authorization.decline_reason:
        data["decline_reason"] = authorization.decline_reason
    data |= merchant_members(authorization.merchant_amount)
    return (event(derive(command.id, Derived.EVENT_FIRST), "authorization.decided", data),)


def _advised_hold(
    command: Advise, account: Account, result: FollowUpResult, authorization_id: str | None, now_ms: int
) -> tuple[Event, ...]:
    for effect in result.effects:
        if isinstance(effect, HoldPlaced) and authorization_id is not None:
            return (_hold_created(command.id, authorization_id, account, effect.hold, now_ms),)
        if isinstance(effect, HoldClosed) and authorization_id is not None:
            released_minor = -sum(
                each.amount_minor for each in result.effects if isinstance(each, UsageCounted)
            )
            return (
                _hold_released(command.id, authorization_id, effect.hold_id, released_minor, account, now_ms),
            )
    return ()


def _hold_created(root: str, authorization_id: str, account: Account, hold: Hold, now_ms: int) -> Event:
    """``held`` and ``available`` are the figures after the whole command."""
    hold_id, card_id, amount_minor, expires_ms = hold.id, hold.card_id, hold.amount_minor, hold.expires_ms
    account_id, asset = account.id, account.currency
    held_minor, available_minor = account.held_minor, account.posted_minor - account.held_minor

    def members() -> dict[str, Any]:
        return {
            "hold_id": hold_id,
            "account_id": account_id,
            "authorization_id": authorization_id,
            "card_id": card_id,
            "amount": format_minor(amount_minor),
            "asset": asset,
            "held": format_minor(held_minor),
            "available": format_minor(available_minor),
            "expires_at": to_text(expires_ms),
            "occurred_at": to_text(now_ms),
        }

    return Event(derive(root, Derived.EVENT_SECOND), "ledger.hold.created", members)


def _hold_released(
    root: str, authorization_id: str, hold_id: str, amount_minor: int, account: Account, now_ms: int
) -> Event:
    data = {
        "hold_id": hold_id,
        "account_id": account.id,
        "authorization_id": authorization_id,
        "amount": format_minor(amount_minor),
        "asset": account.currency,
        "available": _available(account),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(root, Derived.EVENT_FOURTH), "ledger.hold.released", data)


def _hold_captured(
    command: Present, transferred: Transferred, result: FollowUpResult, account: Account, now_ms: int
) -> Event:
    hold_id = next(
        effect.hold_id for effect in result.effects if isinstance(effect, HoldClosed | HoldResized)
    )
    data = {
        "hold_id": hold_id,
        "account_id": account.id,
        "authorization_id": transferred.authorization_id,
        "transfer_id": transferred.transfer_id,
        "settlement_account_id": transferred.other_account_id,
        "amount": format_minor(transferred.amount_minor),
        "asset": account.currency,
        "available": _available(account),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(command.id, Derived.EVENT_FIRST), "ledger.hold.captured", data)


def entry_posted(root: str, transferred: Transferred, account: Account, now_ms: int) -> Event:
    """``ledger.entry.posted``. ``entry_id`` is the entry on the card's account, and ``direction`` is seen
    from that account."""
    credit = transferred.direction == "credit"
    data = {
        "entry_id": transferred.credit_entry_id if credit else transferred.debit_entry_id,
        "account_id": account.id,
        "authorization_id": transferred.authorization_id,
        "transfer_id": transferred.transfer_id,
        "direction": transferred.direction,
        "amount": format_minor(transferred.amount_minor),
        "asset": account.currency,
        "available": _available(account),
        "occurred_at": to_text(now_ms),
    }
    return event(derive(root, Derived.EVENT_THIRD), "ledger.entry.posted", data)


def _available(account: Account) -> str:
    return format_minor(account.posted_minor - account.held_minor)


def card_event(command: CreateCard | ChangeCard, type_: str, card: Card) -> Event:
    """``card.created`` and ``card.updated``: the card without the cardholder's personal data."""
    return event(derive(command.id, Derived.EVENT_FIRST), type_, _card_data(command, card))


def _card_data(command: CreateCard | ChangeCard | ReplaceCard, card: Card) -> dict[str, Any]:
    return card_view(card) | {"external_ref": command.external_ref, "metadata": command.metadata}


def replacement_events(command: ReplaceCard, card: Card, now_ms: int) -> tuple[Event, ...]:
    """``card.updated`` and ``card.replaced`` of the replaced ``card``. The first event id of ``command``
    belongs to the replacement's ``card.created``."""
    data = {
        "card_id": card.id,
        "replaced_by": card.replaced_by,
        "reason": command.reason,
        "state": card.state,
        "programme_id": card.programme_id,
        "cardholder_id": card.cardholder_id,
        "occurred_at": to_text(now_ms),
    }
    return (
        event(derive(command.id, Derived.EVENT_SECOND), "card.updated", _card_data(command, card)),
        event(derive(command.id, Derived.EVENT_THIRD), "card.replaced", data),
    )


def outage_finished(root: str, programme_id: str, ended_ms: int) -> Event:
    """``authorization.stip_outage.finished``: the programme and the instant only."""
    data = {"programme_id": programme_id, "ended_at": to_text(ended_ms)}
    return event(derive(root, Derived.EVENT_FIRST), "authorization.stip_outage.finished", data)


def programme_event(root: str, type_: str, config: ProgrammeConfig, changed: list[str], now_ms: int) -> Event:
    """``programme.*``: the version and the names of the changed members, never their values."""
    data = {
        "programme_id": config.id,
        "version": config.version,
        "changed": changed,
        "occurred_at": to_text(now_ms),
    }
    return event(derive(root, Derived.EVENT_FIRST), type_, data)
