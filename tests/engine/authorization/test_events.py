"""Event payloads, field by field and in the exact bytes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from engine.authorization.events import Event
from engine.authorization.executed import CommandContext
from engine.cards.card import card_view
from engine.execution.execute import execute
from engine.execution.issuing import card_of, issue
from engine.ids import Derived, derive
from engine.instant import DAY_MS
from tests.support.engine.build import (
    ACCOUNT,
    CARD,
    NOW_MS,
    PROGRAMME,
    account,
    authorize,
    card,
    change_card,
    create_card,
    load,
    programme,
    wire,
)

SPEND = authorize(wire=wire(1, network_txn_id="NTX1"))
HOLD = derive(SPEND.id, Derived.HOLD)
NOW = "2026-11-21T10:00:00.000Z"


def published(
    command: Any, card_parts: dict[str, Any] | None = None, posted_minor: int = 10_000
) -> list[Event]:
    context = CommandContext(card(**card_parts or {}), account(posted_minor=posted_minor), programme())
    return list(execute(command, context, NOW_MS).events)


def test_events_of_an_approval() -> None:
    decided, created = published(SPEND)
    assert (decided.id, decided.type, decided.data) == (
        derive(SPEND.id, Derived.EVENT_FIRST),
        "authorization.decided",
        f'{{"authorization_id":"{SPEND.id}","card_id":"{CARD}","programme_id":"{PROGRAMME}",'
        '"amount":"10.00","currency":"EUR","decision":"approved","approved_amount":"10.00",'
        '"decided_by":"platform","risk":{"score":0,"action":"allow"},'
        f'"hold_id":"{HOLD}","network_txn_id":"NTX1"}}',
    )
    assert created.id == derive(SPEND.id, Derived.EVENT_SECOND)
    assert created.type == "ledger.hold.created"
    assert msgspec.json.decode(created.data) == {
        "hold_id": HOLD,
        "account_id": ACCOUNT,
        "authorization_id": SPEND.id,
        "card_id": CARD,
        "amount": "10.00",
        "asset": "EUR",
        "held": "10.00",
        "available": "90.00",
        "expires_at": "2026-11-28T10:00:00.000Z",
        "occurred_at": NOW,
    }


def test_event_of_a_decline() -> None:
    (decided,) = published(msgspec.structs.replace(SPEND, amount_minor=5, channel="moto"), {"state": "lost"})
    assert msgspec.json.decode(decided.data) == {
        "authorization_id": SPEND.id,
        "card_id": CARD,
        "programme_id": PROGRAMME,
        "amount": "0.05",
        "currency": "EUR",
        "decision": "declined",
        "approved_amount": "0.00",
        "decided_by": "platform",
        "risk": {"score": 30, "action": "allow"},
        "hold_id": None,
        "network_txn_id": "NTX1",
        "decline_reason": "card_lost",
    }


def test_events_of_a_partial_approval() -> None:
    decided, created = published(msgspec.structs.replace(SPEND, partial_allowed=True), posted_minor=700)
    data = msgspec.json.decode(decided.data)
    assert (data["decision"], data["amount"], data["approved_amount"]) == ("approved", "10.00", "7.00")
    assert msgspec.json.decode(created.data)["available"] == "0.00"


def test_event_of_a_verification() -> None:
    (decided,) = published(authorize(amount_minor=0))
    data = msgspec.json.decode(decided.data)
    assert (data["decision"], data["amount"], data["hold_id"]) == ("approved", "0.00", None)
    assert (data["network_txn_id"], "decline_reason" in data) == (None, False)


def test_events_of_a_refund() -> None:
    refund = authorize(kind="refund")
    decided, posted = published(refund)
    assert msgspec.json.decode(decided.data)["hold_id"] is None
    assert (posted.id, posted.type) == (derive(refund.id, Derived.EVENT_THIRD), "ledger.entry.posted")
    assert msgspec.json.decode(posted.data) == {
        "entry_id": derive(refund.id, Derived.ENTRY_CREDIT),
        "account_id": ACCOUNT,
        "authorization_id": refund.id,
        "transfer_id": derive(refund.id, Derived.TRANSFER),
        "direction": "credit",
        "amount": "10.00",
        "asset": "EUR",
        "available": "110.00",
        "occurred_at": NOW,
    }


def test_event_of_a_load() -> None:
    (posted,) = published(load())
    assert msgspec.json.decode(posted.data) == {
        "entry_id": derive(load().id, Derived.ENTRY_CREDIT),
        "account_id": ACCOUNT,
        "authorization_id": None,
        "transfer_id": derive(load().id, Derived.TRANSFER),
        "direction": "credit",
        "amount": "50.00",
        "asset": "EUR",
        "available": "150.00",
        "occurred_at": NOW,
    }


def test_expired_hold_publishes_no_event() -> None:
    context = CommandContext(card(), account(), programme())
    execute(SPEND, context, NOW_MS)
    events = execute(authorize(2, amount_minor=0), context, NOW_MS + 8 * DAY_MS).events
    assert [event.type for event in events] == ["authorization.decided"]


def test_events_of_cards() -> None:
    about = {"external_ref": "ours", "metadata": {"team": "red"}}
    command = msgspec.structs.replace(create_card(), **about)
    made = card_of(command, NOW_MS)
    (created,) = issue(command, made, account(id=command.account_id)).events
    assert (created.id, created.type) == (derive(command.id, Derived.EVENT_FIRST), "card.created")
    assert msgspec.json.decode(created.data) == card_view(made) | about
    (updated,) = published(change_card(1, state="lost"))
    assert (updated.id, updated.type) == (derive(change_card(1).id, Derived.EVENT_FIRST), "card.updated")
    data = msgspec.json.decode(updated.data)
    assert (data["state"], data["external_ref"], data["metadata"]) == ("lost", None, {})
    assert not {"cardholder_name", "cardholder_email"} & set(data)


@pytest.mark.parametrize(
    "command",
    [SPEND, authorize(kind="refund"), load(), change_card(1, state="lost")],
    ids=lambda each: each.id,
)
def test_same_command_publishes_the_same_bytes(command: Any) -> None:
    assert published(command) == published(command)
    ids = [event.id for event in published(command)]
    assert len(set(ids)) == len(ids)


def test_event_data_is_that_of_its_instant() -> None:
    """Members are made on demand; later commands change the account and the hold."""
    context = CommandContext(card(), account(posted_minor=10_000), programme())
    decided, created = execute(SPEND, context, NOW_MS).events
    before = (decided.data, created.data)
    assert context.account is not None
    context.account.held_minor, context.account.posted_minor = 7, 9
    hold = context.account.holds[HOLD]
    hold.amount_minor, hold.expires_ms = 1, NOW_MS
    assert (decided.data, created.data) == before
