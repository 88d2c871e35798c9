"""The catalogue of event types; published events fit its schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from engine.webhooks.catalogue import CATALOGUE
from tests.support.api.authorization_rules import rule_of
from tests.support.api.driver import Caller
from tests.support.api.event_schemas import faults
from tests.support.api.stack import Installation

# Types that a managed programme without delegated decisions never publishes.
ELSEWHERE = {
    "authorization.posting_instruction.issued",
    "authorization.posting_instruction.released",
    "authorization.stip_outage.finished",
    "clearing.posting_instruction.created",
}


async def test_catalogue_lists_every_type_with_a_schema(running: Installation, acme: Caller) -> None:
    listed = await acme.get("/v1/event-types")
    assert (listed["has_more"], listed["next_cursor"]) == (False, None)
    assert [entry["type"] for entry in listed["data"]] == sorted(CATALOGUE)
    for entry in listed["data"]:
        Draft202012Validator.check_schema(entry["schema"])
        assert entry["description"].endswith(".")
    planned = {entry["type"] for entry in listed["data"] if entry["status"] == "planned"}
    of_gateway = {type_ for type_ in CATALOGUE if ".posting_instruction." in type_}
    assert planned == {"transaction.cleared", "clearing.exception.raised"} | of_gateway
    assert (await acme.send("GET", "/v1/event-types?type=card.created")).status_code == 400
    async with running.variant(enable_gateway=True) as http:
        acme.http = http
        listed = await acme.get("/v1/event-types")
    planned = {entry["type"] for entry in listed["data"] if entry["status"] == "planned"}
    assert planned == {"transaction.cleared", "clearing.exception.raised"}


async def test_managed_programme_publishes_every_live_type_as_described(acme: Caller) -> None:
    await long_journey(acme)
    told = (await acme.get("/v1/events?limit=100"))["data"]
    assert [fault for event in told for fault in faults(event["type"], event["data"])] == []
    live = {entry.type for entry in CATALOGUE.values() if entry.status == "live"} - ELSEWHERE
    assert live == {event["type"] for event in told}


async def long_journey(acme: Caller) -> None:
    """Operations that together publish every live event type of a managed programme."""
    programme = await acme.programme()
    product = await acme.product(programme, control_defaults=[{"kind": "per_day_cap", "count": 50}])
    holder = await acme.cardholder(programme)
    card = await acme.card(product, holder, controls=[{"kind": "mcc_deny", "values": ["7995"]}])
    await acme.load(card, "500.00")
    rule = await acme.post("/v1/authorization-rules", rule_of("card", card["id"], state="active"))
    await acme.spend(card, "1.00", mcc="7801")
    await acme.post(f"/v1/authorization-rules/{rule['id']}/retire", None, 200)
    for fields in ({}, {"mcc": "7995"}, {"currency": "USD"}, {"kind": "refund"}):
        await acme.spend(card, "10.00", **fields)
    cleared, reversed_, raised = [await acme.spend(card, "20.00") for _ in range(3)]
    for spend, follow_up, body in (
        (cleared, "clear", {"amount": {"amount": "15.00", "currency": "EUR"}, "final": True}),
        (reversed_, "reverse", {}),
        (raised, "increment", {"raise_by_amount": {"amount": "5.00", "currency": "EUR"}}),
    ):
        path = f"/v1/simulated-spends/{spend['simulation_id']}/{follow_up}"
        await acme.simulation((await acme.post(path, body, 202))["simulation_id"])
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    await acme.post(f"/v1/cards/{card['id']}/replace", {"reason": "lost"})
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"given_name": "Augusta", "status": "blocked"})
    erased = await acme.cardholder(programme)
    assert (await acme.send("DELETE", f"/v1/cardholders/{erased['id']}")).status_code == 204
    await acme.patch(f"/v1/card-products/{product['id']}", {"external_ref": "ours"})
    await acme.post(f"/v1/card-products/{product['id']}/retire", None, 200)
    response = await acme.send("PUT", f"/v1/programs/{programme['id']}/stip-policy", {"mode": "decline_all"})
    assert response.status_code == 200, response.text
    for change in ({"name": "Other"}, {"status": "suspended"}, {"status": "closed"}):
        await acme.patch(f"/v1/programs/{programme['id']}", change)
    endpoint = await acme.endpoint()
    await acme.post(f"/v1/webhook-endpoints/{endpoint['id']}/test", None, 202)


async def test_gateway_programme_publishes_its_types_as_described(
    running: Installation, acme: Caller
) -> None:
    async with running.variant(enable_gateway=True) as acme.http:
        programme = await acme.programme(mode="gateway")
        card = await acme.card(await acme.product(programme), await acme.cardholder(programme))
        spend = await acme.spend(card, "20.00")
        assert spend["decision"] == "approved", spend
        await acme.spend(card, "3.00", kind="refund")
        for follow_up, body in (
            ("increment", {"raise_by_amount": {"amount": "5.00", "currency": "EUR"}}),
            ("reverse", {"lower_by_amount": {"amount": "1.00", "currency": "EUR"}}),
            ("clear", {}),
        ):
            path = f"/v1/simulated-spends/{spend['simulation_id']}/{follow_up}"
            await acme.simulation((await acme.post(path, body, 202))["simulation_id"])
        told = (await acme.get("/v1/events?limit=100"))["data"]
    acme.http = running.http
    assert [fault for event in told for fault in faults(event["type"], event["data"])] == []
    assert {event["type"] for event in told} >= {
        type_ for type_ in CATALOGUE if "posting_instruction" in type_
    }
    assert not [event for event in told if event["type"].startswith("ledger.")]


@pytest.mark.parametrize(
    ("type_", "data"),
    [
        (
            "authorization.stip_outage.finished",
            {"programme_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e", "ended_at": "2026-11-21T10:15:30.123Z"},
        ),
        (
            "authorization.posting_instruction.issued",
            {
                "type": "authorization",
                "direction": "debit",
                "authorization_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
                "card_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
                "amount": "12.50",
                "currency": "EUR",
                "approval_code": "A1B2C3",
                "network_ref": "123456789012345",
                "mcc": "5411",
                "merchant": {"name": "Corner Shop", "country": "IE"},
                "occurred_at": "2026-11-21T10:15:30.123Z",
            },
        ),
        (
            "clearing.posting_instruction.created",
            {
                "authorization_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
                "card_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
                "hold_id": None,
                "arn": "74537600000000000000001",
                "sequence": 1,
                "amount": "12.50",
                "currency": "EUR",
                "direction": "debit",
                "mcc": "5411",
                "merchant": {"name": "Corner Shop", "country": "IE"},
                "network_ref": "123456789012345",
                "occurred_at": "2026-11-21T10:15:30.123Z",
            },
        ),
    ],
)
def test_schemas_of_other_modes_require_exactly_their_members(type_: str, data: dict[str, Any]) -> None:
    assert faults(type_, data) == []
    for name in data:
        assert faults(type_, {key: value for key, value in data.items() if key != name}), name
    assert faults(type_, data | {"surprise": 1})


async def test_schemas_reject_wrong_members(running: Installation, acme: Caller) -> None:
    """A schema that accepts any value would make the other tests pass without checking."""
    await acme.funded_card()
    rows = await running.services.pool.fetch(
        "SELECT DISTINCT ON (type) type, data FROM events WHERE type = ANY ($1::text[])", list(CATALOGUE)
    )
    assert rows
    for row in rows:
        data = json.loads(row["data"])
        for name in data.keys() & set(CATALOGUE[row["type"]].schema["required"]):
            assert faults(row["type"], data | {name: object}), (row["type"], name)
