"""Changing a cardholder: what changes, what is told, and a status in force once it is acknowledged."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from engine.commands import Command
from engine.replies import NotExecuted, Reply
from tests.api.driver import Caller
from tests.api.stack import Installation


async def change(caller: Caller, holder: Any, ends: int = 200, **members: Any) -> Any:
    return await caller.patch(f"/v1/cardholders/{holder['id']}", members, ends)


async def told(caller: Caller) -> list[Any]:
    return [event["data"] for event in (await caller.get("/v1/events?types=cardholder.updated"))["data"]]


async def test_parts_are_replaced(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), phone="+353861234567")
    address = {"line1": "1 Main St", "line2": None, "city": "Cork", "postcode": "T12", "country": "IE"}
    parts: dict[str, Any] = {
        "given_name": "Augusta",
        "email": "augusta@example.com",
        "date_of_birth": "1990-05-17",
    }
    changed = await change(acme, holder, **parts, address=address, phone=None)
    assert changed == holder | parts | {
        "address": address,
        "phone": None,
        "updated_at": changed["updated_at"],
    }
    assert changed["updated_at"] > holder["updated_at"]
    assert await acme.get(f"/v1/cardholders/{holder['id']}") == changed
    assert await told(acme) == [
        {
            "cardholder_id": holder["id"],
            "programme_id": holder["programme_id"],
            "status": "active",
            "kyc_state": None,
            "occurred_at": changed["updated_at"],
            "changed": ["given_name", "email", "phone", "date_of_birth", "address"],
        }
    ]
    assert await change(acme, holder, **parts) == changed
    assert len(await told(acme)) == 1


@pytest.mark.parametrize(
    ("members", "pointer"),
    [
        ({}, ""),
        ({"given_name": None}, "/given_name"),
        ({"email": "nobody"}, "/email"),
        ({"status": "asleep"}, "/status"),
        ({"status": None}, "/status"),
        ({"programme_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"}, "/programme_id"),
        ({"kyc_state": "passed"}, "/kyc_state"),
    ],
)
async def test_changes_that_cannot_be(acme: Caller, members: dict[str, Any], pointer: str) -> None:
    holder = await acme.cardholder(await acme.programme())
    problem = await change(acme, holder, 400, **members)
    assert problem["errors"][0]["pointer"] == pointer


@pytest.mark.parametrize("status", ["blocked", "closed"])
async def test_a_status_is_in_force_on_all_cards(acme: Caller, status: str) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    cards = [await acme.card(product, holder) for _ in range(3)]
    for card in cards:
        await acme.load(card, "10.00")
    held = await acme.spend(cards[0], "2.00")
    assert (await change(acme, holder, status=status))["status"] == status
    for card in cards:
        spend = await acme.spend(card, "1.00")
        assert (spend["decline_reason"], spend["response_code"]) == ("cardholder_blocked", "57")
    refused = await acme.post(
        "/v1/cards", {"card_product_id": product["id"], "cardholder_id": holder["id"]}, 409
    )
    assert refused["type"] == "/problems/cardholder-not-active"
    # What has been approved goes on: reversals and clearings ask nobody.
    cleared = await acme.post(f"/v1/simulated-spends/{held['simulation_id']}/clear", None, 202)
    assert (await acme.simulation(cleared["simulation_id"]))["decision"] == "approved"


async def test_an_active_cardholder_again(acme: Caller) -> None:
    card = await acme.funded_card()
    holder = {"id": card["cardholder_id"]}
    for status in ("blocked", "blocked", "active"):
        await change(acme, holder, status=status)
    assert (await acme.spend(card, "1.00"))["decision"] == "approved"
    assert [data["status"] for data in await told(acme)] == ["active", "blocked"]


async def test_closed_is_final(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme())
    await change(acme, holder, status="closed")
    for status in ("active", "blocked"):
        refused = await change(acme, holder, 409, status=status)
        assert refused["type"] == "/problems/invalid-state-transition"
    assert (await change(acme, holder, status="closed"))["status"] == "closed"


async def test_cards_issued_meanwhile_are_told(acme: Caller) -> None:
    """Whichever of the two comes first, no card of a blocked cardholder can be used."""
    programme = await acme.programme()
    product = await acme.product(programme)
    for _ in range(8):
        holder = await acme.cardholder(programme)
        body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
        issued, blocked = await asyncio.gather(
            acme.send("POST", "/v1/cards", body), change(acme, holder, status="blocked")
        )
        assert blocked["status"] == "blocked"
        assert issued.status_code in {201, 409}
        if issued.status_code == 201:
            await acme.load(issued.json(), "5.00")
            assert (await acme.spend(issued.json(), "1.00"))["decline_reason"] == "cardholder_blocked"


async def test_nothing_is_acknowledged_that_is_not_in_force(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = await acme.funded_card()
    holder = {"id": card["cardholder_id"]}

    async def unreachable(command: Command, **_options: Any) -> Reply:
        return NotExecuted("unavailable")

    with monkeypatch.context() as patched:
        patched.setattr(running.services.owners, "submit", unreachable)
        refused = await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, 500, key="again")
        assert refused["type"] == "/problems/dependency-unavailable"
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["status"] == "active"
    again = await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, key="again")
    assert again["status"] == "blocked"
    assert (await acme.spend(card, "1.00"))["decline_reason"] == "cardholder_blocked"
    replayed = await acme.send("PATCH", f"/v1/cardholders/{holder['id']}", {"status": "blocked"}, key="again")
    assert replayed.json() == again
    assert replayed.headers["Idempotent-Replayed"] == "true"
