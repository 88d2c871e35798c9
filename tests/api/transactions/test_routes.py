"""Transactions and events over the API: explained decisions, filters, published events."""

from __future__ import annotations

import pytest

from tests.support.api.driver import Caller


async def test_approval_shows_every_member_and_its_trace(acme: Caller) -> None:
    card = await acme.funded_card("100.00", controls=[{"kind": "per_day_amount_cap", "amount": "80.00"}])
    await acme.spend(card, "30.00")
    spend = await acme.spend(card, "20.00", merchant_country="FR", entry_mode="contactless")
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    trace = {step["rule"]: step for step in transaction.pop("trace")}
    assert trace["per_day_amount_cap"] == {
        "rule": "per_day_amount_cap",
        "outcome": "pass",
        "observed": "30.00",
        "limit": "80.00",
    }
    assert trace["funds"]["observed"] == "70.00"
    created_at = transaction["created_at"]
    assert transaction == {
        "id": spend["transaction_id"],
        "kind": "purchase",
        "status": "pending",
        "card_id": card["id"],
        "cardholder_id": card["cardholder_id"],
        "programme_id": card["programme_id"],
        "authorization_id": spend["authorization_id"],
        "hold_id": spend["hold_id"],
        "currency": "EUR",
        "requested_amount": "20.00",
        "approved_amount": "20.00",
        "held_amount": "20.00",
        "cleared_amount": "0.00",
        "reversed_amount": "0.00",
        "merchant_amount": {"amount": "20.00", "currency": "EUR"},
        "conversion_rate": None,
        "mcc": "5411",
        "merchant": {"id": "MERCHANT0000001", "name": "Corner Shop", "country": "FR"},
        "channel": "pos",
        "entry_mode": "contactless",
        "network": {
            "name": "visa",
            "acquirer_id": "424242",
            "stan": spend["stan"],
            "rrn": spend["rrn"],
            "network_txn_id": spend["network_txn_id"],
            "approval_code": spend["approval_code"],
            "response_code": "00",
        },
        "decision": "approved",
        "decline_reason": None,
        "decline_detail": None,
        "decided_by": "platform",
        "risk": {"score": 0, "action": "allow"},
        "events": [{"type": "authorization", "amount": "20.00", "occurred_at": created_at}],
        "created_at": created_at,
        "updated_at": created_at,
        "metadata": {},
    }


async def test_decline_shows_its_reason_and_failing_rule(acme: Caller) -> None:
    card = await acme.funded_card("5.00")
    spend = await acme.spend(card, "5.01")
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    assert (transaction["status"], transaction["decline_reason"]) == ("declined", "insufficient_funds")
    assert transaction["trace"][-1] == {
        "rule": "funds",
        "outcome": "fail",
        "observed": "5.00",
        "limit": "5.01",
    }
    assert transaction["approved_amount"] == "0.00"
    event = (await acme.get("/v1/events?types=authorization.decided"))["data"][0]
    assert event["data"]["decline_reason"] == "insufficient_funds"
    assert event["data"]["authorization_id"] == spend["authorization_id"]


async def test_list_is_filtered_by_every_parameter(acme: Caller) -> None:
    first, second = await acme.funded_card("5.00"), await acme.funded_card("5.00")
    approved = await acme.spend(first, "1.00")
    declined = await acme.spend(first, "6.00")
    refund = await acme.spend(second, "2.00", kind="refund")

    async def ids(query: str) -> list[str]:
        return [row["id"] for row in (await acme.get(f"/v1/transactions?{query}"))["data"]]

    everything = [spend["transaction_id"] for spend in (refund, declined, approved)]
    assert await ids("") == everything
    assert await ids(f"card_id={first['id']}") == everything[1:]
    assert await ids(f"cardholder_id={second['cardholder_id']}") == everything[:1]
    assert await ids(f"programme_id={second['programme_id']}") == everything[:1]
    assert await ids("status=declined") == [declined["transaction_id"]]
    assert await ids("kind=refund&status=posted") == [refund["transaction_id"]]
    at = (await acme.get(f"/v1/transactions/{declined['transaction_id']}"))["created_at"]
    assert declined["transaction_id"] in await ids(f"from={at}")
    assert approved["transaction_id"] not in await ids(f"from={at}")
    assert await ids(f"to={at}") == [approved["transaction_id"]]
    assert await ids("from=2020-01-01T00:00:00%2B01:00&to=2020-01-02T00:00:00Z") == []
    page = f"limit=1&card_id={first['id']}&starting_after={declined['transaction_id']}"
    assert await ids(page) == [approved["transaction_id"]]


@pytest.mark.parametrize("path", ["/v1/transactions", "/v1/events"])
@pytest.mark.parametrize(
    "value",
    [
        "yesterday",
        "2026-11-21",
        "2026-11-21T10:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "0001-01-01T00:00:00Z",
        "1763720130",
    ],
)
async def test_invalid_instant_is_refused(acme: Caller, path: str, value: str) -> None:
    problem = await acme.get(f"{path}?from={value}", 400)
    assert problem["errors"][0]["pointer"] == "/from"


async def test_events_are_read_by_type_and_by_id(acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    events = (await acme.get("/v1/events"))["data"]
    assert [event["created_at"] for event in events] == sorted(
        (e["created_at"] for e in events), reverse=True
    )
    chosen = (await acme.get("/v1/events?types=card.updated,card.created"))["data"]
    assert [event["type"] for event in chosen] == ["card.updated", "card.created"]
    for event in events:
        assert set(event) == {"id", "type", "created_at", "data"}
        assert await acme.get(f"/v1/events/{event['id']}") == event
    for wrong in ("types=card.exploded", "types=", "types=card.created,"):
        assert (await acme.get(f"/v1/events?{wrong}", 400))["errors"][0]["pointer"] == "/types"
    assert (await acme.get(f"/v1/events?types=card.created&to={events[-1]['created_at']}"))["data"] == []
