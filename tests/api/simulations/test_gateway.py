"""Gateway programmes, which keep their own ledger: the setting that enables them, cards without accounts, and
posting instructions. The requests go through the API and the simulated network.
"""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from tests.api.simulations.test_follow_ups import balance, follow, money, refused
from tests.support.api.driver import Caller
from tests.support.api.event_schemas import faults
from tests.support.api.stack import Installation

INSTRUCTIONS = "authorization.posting_instruction.issued,authorization.posting_instruction.released,"
INSTRUCTIONS += "clearing.posting_instruction.created"


async def gateway_programme(running: Installation, caller: Caller, **fields: Any) -> Any:
    """Create a programme on a server with gateway mode enabled; tests use servers without it."""
    async with running.variant(enable_gateway=True) as http:
        there = Caller(http, caller.credentials)
        there.token = caller.token
        return await there.programme(mode="gateway", **fields)


@pytest_asyncio.fixture(loop_scope="session")
async def card(running: Installation, acme: Caller) -> Any:
    """A card of a gateway programme."""
    programme = await gateway_programme(running, acme)
    return await acme.card(await acme.product(programme), await acme.cardholder(programme))


async def instructed(caller: Caller) -> list[tuple[str, str, str]]:
    """All posting instructions of the tenant, oldest first: last part of the event type, type or direction,
    amount."""
    page = await caller.get(f"/v1/events?types={INSTRUCTIONS}&limit=100")
    found = []
    for event in reversed(page["data"]):
        data = event["data"]
        assert not faults(event["type"], data)
        found.append((event["type"].rsplit(".", 1)[-1], data.get("type", data["direction"]), data["amount"]))
    return found


async def event_types(caller: Caller) -> set[str]:
    return {event["type"] for event in (await caller.get("/v1/events?limit=100"))["data"]}


async def transaction(caller: Caller, spend: Any) -> Any:
    return await caller.get(f"/v1/transactions/{spend['transaction_id']}")


def figures(shown: Any) -> tuple[str, ...]:
    """Status, then the approved, held, cleared and reversed amounts."""
    names = ("approved_amount", "held_amount", "cleared_amount", "reversed_amount")
    return (shown["status"], *(shown[name] for name in names))


# --- the setting ---


async def test_setting_controls_only_the_creation_of_gateway_programmes(
    running: Installation, acme: Caller
) -> None:
    body = {"name": "Own ledger", "currency": "EUR", "mode": "gateway"}
    assert (await acme.post("/v1/programs", body, 409))["type"] == "/problems/gateway-not-enabled"
    programme = await gateway_programme(running, acme)
    assert programme["mode"] == "gateway"
    path = f"/v1/programs/{programme['id']}"
    assert (await acme.get(path))["mode"] == "gateway"
    # An existing gateway programme still works without the setting, so open sales can be finished.
    assert (await acme.patch(path, {"name": "Renamed"}))["version"] == 2
    assert (await acme.patch(path, {"mode": "managed"}, 400))["type"] == "/problems/validation-failed"


# --- cards ---


@pytest.mark.parametrize("fields", [{}, {"funding_account_id": None}])
async def test_card_of_a_gateway_programme_has_no_account(
    running: Installation, acme: Caller, fields: Any
) -> None:
    programme = await gateway_programme(running, acme)
    card = await acme.card(await acme.product(programme), await acme.cardholder(programme), **fields)
    assert card["funding_account_id"] is None
    shown = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert {name: shown[name] for name in ("account_id", "posted", "held", "available")} == {
        "account_id": None,
        "posted": "0.00",
        "held": "0.00",
        "available": "0.00",
    }
    load = {"card_id": card["id"], "amount": money("5.00")}
    assert (await acme.post("/v1/simulated-loads", load, 409))["type"] == "/problems/card-not-funded"


async def test_account_of_another_programme_is_not_found(running: Installation, acme: Caller) -> None:
    funded = await acme.funded_card()
    programme = await gateway_programme(running, acme)
    body = {
        "card_product_id": (await acme.product(programme))["id"],
        "cardholder_id": (await acme.cardholder(programme))["id"],
        "funding_account_id": funded["funding_account_id"],
    }
    assert (await acme.post("/v1/cards", body, 404))["type"] == "/problems/not-found"


# --- sales ---


async def test_each_step_of_a_sale_issues_one_posting_instruction(acme: Caller, card: Any) -> None:
    """Approved, incremented, partially reversed, cleared in two parts, then refunded."""
    spend = await acme.spend(card, "40.00")
    assert (spend["decision"], spend["hold_id"]) == ("approved", None)
    await follow(acme, spend, "increment", {"raise_by_amount": money("25.00")})
    await follow(acme, spend, "reverse", {"lower_by_amount": money("15.00")})
    assert figures(await transaction(acme, spend)) == ("pending", "65.00", "0.00", "0.00", "15.00")
    await follow(acme, spend, "clear", {"amount": money("20.00"), "final": False})
    assert figures(await transaction(acme, spend)) == ("partially_cleared", "65.00", "0.00", "20.00", "15.00")
    assert await refused(acme, spend, "reverse", {"lower_by_amount": money("30.01")}, 400) == (
        "amount-exceeds-hold"
    )
    await follow(acme, spend, "clear")
    refund = await acme.spend(card, "12.00", kind="refund")
    assert figures(await transaction(acme, refund)) == ("pending", "12.00", "0.00", "0.00", "0.00")
    await follow(acme, refund, "clear")
    assert await instructed(acme) == [
        ("issued", "authorization", "40.00"),
        ("issued", "increment", "25.00"),
        ("released", "credit", "15.00"),
        ("created", "debit", "20.00"),
        ("created", "debit", "30.00"),
        ("issued", "refund", "12.00"),
        ("created", "credit", "12.00"),
    ]
    shown = await transaction(acme, spend)
    assert figures(shown) == ("cleared", "65.00", "0.00", "50.00", "15.00")
    assert [(event["type"], event["amount"]) for event in shown["events"]] == [
        ("authorization", "40.00"),
        ("increment", "25.00"),
        ("reversal", "15.00"),
        ("clearing", "20.00"),
        ("clearing", "30.00"),
    ]
    assert figures(await transaction(acme, refund)) == ("cleared", "12.00", "0.00", "12.00", "0.00")
    assert await balance(acme, card) == ("0.00", "0.00", "0.00")
    assert not {type_ for type_ in await event_types(acme) if type_.startswith("ledger.")}
    assert await refused(acme, spend, "reverse", None, 409) == "nothing-held"


async def test_posting_instructions_identify_their_sale(acme: Caller, card: Any) -> None:
    spend = await acme.spend(card, "40.00", mcc="5812", merchant_name="Café", merchant_country="FR")
    await follow(acme, spend, "clear", {"amount": money("10.00"), "final": False})
    await follow(acme, spend, "clear")
    page = await acme.get(f"/v1/events?types={INSTRUCTIONS}")
    second, first, issued = (event["data"] for event in page["data"])
    for data in (issued, first, second):
        assert data["authorization_id"] == spend["authorization_id"]
        assert data["card_id"] == card["id"]
        assert data["network_ref"] == spend["network_txn_id"]
        assert (data["mcc"], data["merchant"]["country"]) == ("5812", "FR")
    assert issued["approval_code"] == spend["approval_code"]
    assert first["arn"] == second["arn"]
    assert (first["sequence"], second["sequence"]) == (1, 2)
    assert first["hold_id"] is second["hold_id"] is None


async def test_takeover_restores_the_open_amount_of_a_sale(
    running: Installation, acme: Caller, card: Any
) -> None:
    """The new shard host reads the open amount from the database and issues no instruction twice."""
    spend = await acme.spend(card, "40.00")
    await follow(acme, spend, "increment", {"raise_by_amount": money("5.00")})
    await follow(acme, spend, "clear", {"amount": money("10.00"), "final": False})
    await running.replace_host()
    await follow(acme, spend, "reverse", {"lower_by_amount": money("20.00")})
    await follow(acme, spend, "increment", {"raise_by_amount": money("1.00")})
    await running.replace_host()
    await follow(acme, spend, "reverse")
    assert (await instructed(acme))[3:] == [
        ("released", "credit", "20.00"),
        ("issued", "increment", "1.00"),
        ("released", "credit", "16.00"),
    ]
    assert figures(await transaction(acme, spend)) == ("cleared", "46.00", "0.00", "10.00", "36.00")


async def test_reversal_returns_its_share_of_the_counters(running: Installation, acme: Caller) -> None:
    programme = await gateway_programme(running, acme)
    caps = [{"kind": "per_day_cap", "count": 1}, {"kind": "per_day_amount_cap", "amount": "50.00"}]
    card = await acme.card(await acme.product(programme), await acme.cardholder(programme), controls=caps)
    spend = await acme.spend(card, "40.00")
    increment = {"raise_by_amount": money("10.01")}
    assert (await follow(acme, spend, "increment", increment))["decline_reason"] == "per_day_amount_exceeded"
    assert (await acme.spend(card, "1.00"))["decline_reason"] == "per_day_count_exceeded"
    await follow(acme, spend, "reverse")
    assert (await acme.spend(card, "50.00"))["decision"] == "approved"


async def test_gateway_sale_does_not_expire(acme: Caller, card: Any) -> None:
    spend = await acme.spend(card, "40.00")
    assert await refused(acme, spend, "expire", None, 409) == "nothing-held"
    assert (await transaction(acme, spend))["status"] == "pending"


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        (
            {"scenario": "partial_approval", "approved_amount": money("3.00")},
            [("issued", "authorization", "3.00")],
        ),
        ({"scenario": "force_stip_timeout"}, [("issued", "authorization", "40.00")]),
    ],
)
async def test_partial_approval_and_network_stand_in_issue_one_instruction(
    acme: Caller, card: Any, fields: Any, told: Any
) -> None:
    assert (await acme.spend(card, "40.00", **fields))["decision"] == "approved"
    assert await instructed(acme) == told


async def test_declines_and_verifications_issue_no_instruction(acme: Caller, card: Any) -> None:
    assert (await acme.spend(card, "0.00"))["response_code"] == "85"
    assert (await acme.spend(card, "1.00", "USD"))["response_code"] == "12"
    assert await instructed(acme) == []


async def test_force_post_issues_a_debit_instruction(acme: Caller, card: Any) -> None:
    body = {"card_id": card["id"], "amount": money("7.00"), "mcc": "5411", "merchant_name": "Shop"}
    accepted = await acme.post("/v1/simulated-clearings", body, 202)
    forced = await acme.simulation(accepted["simulation_id"])
    assert forced["response_code"] == "00"
    assert await instructed(acme) == [("created", "debit", "7.00")]
    assert figures(await transaction(acme, forced)) == ("posted", "7.00", "0.00", "7.00", "0.00")


async def test_replay_of_a_gateway_decision_is_identical(acme: Caller, card: Any) -> None:
    for spend in (await acme.spend(card, "40.00"), await acme.spend(card, "9.00", kind="refund")):
        replayed = await acme.post(f"/v1/transactions/{spend['transaction_id']}/replay", None, 200)
        assert replayed["identical"] is True
        rules = {step["rule"]: step["outcome"] for step in replayed["recomputed"]["trace"]}
        assert rules["funds"] == "skip"
