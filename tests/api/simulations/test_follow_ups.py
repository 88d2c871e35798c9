"""Follow-ups of simulated spends: their effects over the real wire, and each refusal."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import pytest

from actors.ids import new_id
from actors.network.database import NetworkDbConnection
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

OPERATIONS = ("increment", "reverse", "clear", "expire")


def money(amount: str, currency: str = "EUR") -> dict[str, str]:
    return {"amount": amount, "currency": currency}


def body_of(operation: str, amount: str = "1.00") -> dict[str, Any]:
    return {"raise_by_amount": money(amount)} if operation == "increment" else {}


async def follow(caller: Caller, spend: Any, operation: str, body: Any = None, **options: Any) -> Any:
    """Start a follow-up; returns its record when it has ended."""
    path = f"/v1/simulated-spends/{spend['simulation_id']}/{operation}"
    accepted = await caller.post(path, body, 202, **options)
    return await caller.simulation(accepted["simulation_id"])


async def refused(caller: Caller, spend: Any, operation: str, body: Any, status: int) -> str:
    """Start a follow-up that is refused with ``status``; returns the slug of the problem."""
    path = f"/v1/simulated-spends/{spend['simulation_id']}/{operation}"
    problem = await caller.post(path, body, status)
    return str(problem["type"]).removeprefix("/problems/")


async def balance(caller: Caller, card: Any) -> tuple[str, str, str]:
    shown = await caller.get(f"/v1/cards/{card['id']}/balance")
    return shown["posted"], shown["held"], shown["available"]


async def published(caller: Caller) -> list[str]:
    return [event["type"] for event in (await caller.get("/v1/events?limit=100"))["data"]]


async def change(running: Installation, statement: str, *values: Any) -> None:
    """Change a row directly in the database, without its shard's owner."""
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        await connection.execute(statement, *values)
    finally:
        await connection.close()


# --- effects ----------------------------------------------------------------------------------------------


async def test_increment_raises_the_hold_and_publishes_only_its_decision(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    before = await published(acme)
    path = f"/v1/simulated-spends/{spend['simulation_id']}/increment"
    accepted = await acme.post(path, {"raise_by_amount": money("25.00")}, 202)
    assert set(accepted) == {
        "simulation_id",
        "parent_simulation_id",
        "accepted_at",
        "stan",
        "rrn",
        "network_txn_id",
    }
    child = await acme.simulation(accepted["simulation_id"])
    assert {name: child[name] for name in accepted} == accepted
    assert child["parent_simulation_id"] == spend["simulation_id"]
    assert (child["operation"], child["decision"], child["amount"]) == (
        "increment",
        "approved",
        money("25.00"),
    )
    assert child["transaction_id"] == spend["transaction_id"]
    assert child["network_txn_id"] == spend["network_txn_id"]
    assert child["stan"] != spend["stan"]
    assert await balance(acme, card) == ("100.00", "65.00", "35.00")
    assert (await published(acme))[: -len(before)] == ["authorization.decided"]
    assert await acme.get(f"/v1/simulated-spends/{spend['simulation_id']}") == spend


async def test_declined_increment_gives_its_reason_and_keeps_the_hold(acme: Caller) -> None:
    card = await acme.funded_card("50.00")
    spend = await acme.spend(card, "40.00")
    child = await follow(acme, spend, "increment", {"raise_by_amount": money("10.01")})
    assert (child["decision"], child["decline_reason"], child["response_code"]) == (
        "declined",
        "insufficient_funds",
        "51",
    )
    assert await balance(acme, card) == ("50.00", "40.00", "10.00")
    again = await follow(acme, spend, "increment", {"raise_by_amount": money("10.00")})
    assert (again["decision"], again["decline_reason"]) == ("approved", None)


async def test_concurrent_increments_never_exceed_the_funds(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    children = await asyncio.gather(
        *(follow(acme, spend, "increment", {"raise_by_amount": money("20.00")}) for _ in range(5))
    )
    decisions = sorted(child["decision"] for child in children)
    assert decisions == ["approved"] * 3 + ["declined"] * 2
    assert await balance(acme, card) == ("100.00", "100.00", "0.00")


async def test_full_reversal_releases_the_hold(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "stolen"})
    child = await follow(acme, spend, "reverse")
    assert (child["operation"], child["decision"], child["amount"]) == (
        "reversal",
        "approved",
        money("40.00"),
    )
    assert await balance(acme, card) == ("100.00", "0.00", "100.00")
    assert (await published(acme))[0] == "ledger.hold.released"
    assert (await acme.get(f"/v1/transactions/{spend['transaction_id']}"))["status"] == "reversed"
    assert await refused(acme, spend, "reverse", None, 409) == "nothing-held"


async def test_partial_reversals_add_up_without_events(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    before = await published(acme)
    await follow(acme, spend, "reverse", {"lower_by_amount": money("15.00")})
    await follow(acme, spend, "reverse", {"lower_by_amount": money("5.00")})
    assert await balance(acme, card) == ("100.00", "20.00", "80.00")
    assert await published(acme) == before
    assert await refused(acme, spend, "reverse", {"lower_by_amount": money("20.01")}, 400) == (
        "amount-exceeds-hold"
    )
    await follow(acme, spend, "reverse", {"lower_by_amount": money("20.00")})
    assert await balance(acme, card) == ("100.00", "0.00", "100.00")


async def test_clearing_captures_the_hold_and_posts_the_amount(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    first = await follow(acme, spend, "clear", {"amount": money("10.00"), "final": False})
    assert (first["operation"], first["amount"]) == ("clearing", money("10.00"))
    assert await balance(acme, card) == ("90.00", "30.00", "60.00")
    rest = await follow(acme, spend, "clear")
    assert rest["amount"] == money("30.00")
    assert await balance(acme, card) == ("60.00", "0.00", "60.00")
    assert (await published(acme))[0] == "ledger.hold.captured"
    assert await refused(acme, spend, "clear", None, 409) == "nothing-to-clear"
    late = await follow(acme, spend, "clear", {"amount": money("70.00")})
    assert late["decision"] == "approved"
    assert await balance(acme, card) == ("-10.00", "0.00", "-10.00")
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    assert transaction["cleared_amount"] == "110.00"
    assert transaction["events"][-1]["remark"] == "late"


async def test_final_clearing_releases_the_rest_of_the_hold(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await follow(acme, spend, "clear", {"amount": money("10.00")})
    assert await balance(acme, card) == ("90.00", "0.00", "90.00")


async def test_lapse_publishes_no_event_and_can_be_cleared(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    before = await published(acme)
    path = f"/v1/simulated-spends/{spend['simulation_id']}/expire"
    first = await acme.send("POST", path, key="lapse-1")
    assert (first.status_code, first.json()) == (
        200,
        {
            "simulation_id": spend["simulation_id"],
            "authorization_id": spend["authorization_id"],
            "status": "lapsed",
        },
    )
    again = await acme.send("POST", path, key="lapse-1")
    assert again.content == first.content
    assert again.headers["Idempotent-Replayed"] == "true"
    assert await balance(acme, card) == ("100.00", "0.00", "100.00")
    assert await published(acme) == before
    assert await refused(acme, spend, "expire", None, 409) == "nothing-held"
    assert await refused(acme, spend, "reverse", None, 409) == "nothing-held"
    await follow(acme, spend, "clear")
    assert await balance(acme, card) == ("60.00", "0.00", "60.00")


@pytest.mark.parametrize("by_time", [False, True])
async def test_lapsed_sale_is_not_cleared_automatically(
    running: Installation, acme: Caller, by_time: bool
) -> None:
    card = await acme.funded_card("100.00")
    lapsed, held = await acme.spend(card, "40.00"), await acme.spend(card, "10.00")
    if by_time:
        past = "UPDATE holds SET expires_at = now() - interval '1 second' WHERE id = $1::text::uuid"
        await change(running, past, lapsed["hold_id"])
    else:
        await acme.post(f"/v1/simulated-spends/{lapsed['simulation_id']}/expire", status=200)
    due = await due_sales(running, lapsed, held)
    assert due == {held["network_txn_id"]}
    assert await due_sales(running) == set()
    await follow(acme, lapsed, "clear")
    assert (await balance(acme, card))[0] == "60.00"


async def test_increment_after_a_lapse_schedules_automatic_clearing(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await acme.post(f"/v1/simulated-spends/{spend['simulation_id']}/expire", status=200)
    assert await due_sales(running, spend) == set()
    await follow(acme, spend, "increment", {"raise_by_amount": money("5.00")})
    assert await due_sales(running, spend) == {spend["network_txn_id"]}


async def due_sales(running: Installation, *spends: Any) -> set[str]:
    """Make automatic clearing of ``spends`` due; returns the network ids of all sales then claimed."""
    ids = [spend["simulation_id"] for spend in spends]
    due = "UPDATE clearing_schedule SET due_at = now() WHERE simulation_id = ANY ($1::text[]::uuid[])"
    await change(running, due, ids)
    connection = NetworkDbConnection(running.services.settings.database_dsn, "test-clearing")
    try:
        return {row["network_txn_id"] for row in await connection.fetch("claim_due_sales", 100, 60)}
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("ended_by", "body"),
    [("clear", {}), ("clear", {"amount": money("15.00")}), ("reverse", {})],
)
async def test_finished_sale_refuses_an_increment(acme: Caller, ended_by: str, body: Any) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await follow(acme, spend, ended_by, body)
    assert await refused(acme, spend, "increment", body_of("increment"), 409) == "sale-finished"
    await follow(acme, spend, "clear", {"amount": money("3.00")})
    transactions = (await acme.get(f"/v1/transactions?card_id={card['id']}"))["data"]
    assert [each["id"] for each in transactions] == [spend["transaction_id"]]


async def test_partially_cleared_sale_accepts_an_increment(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await follow(acme, spend, "clear", {"amount": money("15.00"), "final": False})
    raised = await follow(acme, spend, "increment", body_of("increment"))
    assert (raised["decision"], raised["authorization_id"]) == ("approved", spend["authorization_id"])


async def test_increment_of_a_lapsed_hold_needs_funds_for_the_whole_hold(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "40.00")
    await acme.post(f"/v1/simulated-spends/{spend['simulation_id']}/expire", status=200)
    await acme.spend(card, "55.00")
    declined = await follow(acme, spend, "increment", {"raise_by_amount": money("6.00")})
    approved = await follow(acme, spend, "increment", {"raise_by_amount": money("5.00")})
    assert (declined["decline_reason"], approved["decision"]) == ("insufficient_funds", "approved")
    assert await balance(acme, card) == ("100.00", "100.00", "0.00")


async def test_clearing_of_a_refund_credits_it_no_second_time(acme: Caller) -> None:
    card = await acme.funded_card("1.00")
    spend = await acme.spend(card, "5.00", kind="refund")
    child = await follow(acme, spend, "clear")
    assert (child["kind"], child["amount"]) == ("refund", money("5.00"))
    assert await balance(acme, card) == ("6.00", "0.00", "6.00")


async def test_force_post_debits_a_suspended_card(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    body = {"card_id": card["id"], "amount": money("25.00"), "mcc": "5812", "merchant_name": "Bistro"}
    accepted = await acme.post("/v1/simulated-clearings", body, 202)
    assert set(accepted) == {"simulation_id", "accepted_at", "stan", "rrn", "network_txn_id"}
    record = await acme.simulation(accepted["simulation_id"])
    assert (record["operation"], record["parent_simulation_id"], record["kind"]) == (
        "clearing",
        None,
        "purchase",
    )
    assert (record["mcc"], record["merchant_country"], record["decision"]) == ("5812", "IE", "approved")
    transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
    assert (transaction["kind"], transaction["status"]) == ("force_post", "posted")
    assert await balance(acme, card) == ("-15.00", "0.00", "-15.00")
    assert (await published(acme))[0] == "ledger.entry.posted"


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_follow_up_of_an_unapproved_spend_is_refused(acme: Caller, operation: str) -> None:
    card = await acme.funded_card("1.00")
    declined = await acme.spend(card, "1.01")
    assert await refused(acme, declined, operation, body_of(operation), 409) == "simulation-not-approved"
    failed = await acme.spend(card, "9999999999999.99")
    assert (failed["state"], failed["stan"]) == ("failed", None)
    assert await refused(acme, failed, operation, body_of(operation), 409) == "simulation-not-approved"


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_follow_up_of_a_follow_up_is_refused(acme: Caller, operation: str) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "10.00")
    for child in (
        await follow(acme, spend, "increment", {"raise_by_amount": money("5.00")}),
        await follow(acme, spend, "reverse", {"lower_by_amount": money("1.00")}),
        await follow(acme, spend, "clear", {"amount": money("1.00"), "final": False}),
    ):
        path = f"/v1/simulated-spends/{child['simulation_id']}/{operation}"
        problem = await acme.post(path, body_of(operation), 409)
        assert problem["type"] == "/problems/child-simulation"
        names = {"increment": "an increment", "reversal": "a reversal", "clearing": "a clearing"}
        assert problem["detail"].endswith(f"itself {names[child['operation']]}.")


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_follow_up_of_an_unknown_spend_is_not_found(acme: Caller, operation: str) -> None:
    for id_ in (new_id(), "nonsense"):
        assert await refused(acme, {"simulation_id": id_}, operation, body_of(operation), 404) == "not-found"


@pytest.mark.parametrize("operation", ["increment", "reverse"])
async def test_refund_refuses_increment_and_reversal(acme: Caller, operation: str) -> None:
    refund = await acme.spend(await acme.funded_card(), "1.00", kind="refund")
    assert await refused(acme, refund, operation, body_of(operation), 400) == "refund-simulation"
    assert await refused(acme, refund, "expire", None, 409) == "nothing-held"


@pytest.mark.parametrize(
    ("operation", "member"),
    [("increment", "raise_by_amount"), ("reverse", "lower_by_amount"), ("clear", "amount")],
)
async def test_follow_up_with_another_currency_or_invalid_amount_is_refused(
    acme: Caller, operation: str, member: str
) -> None:
    spend = await acme.spend(await acme.funded_card(), "10.00")
    body = {member: money("1.00", "USD")}
    assert await refused(acme, spend, operation, body, 400) == "currency-mismatch"
    for wrong in (money("0"), money("0.00"), money("-1"), money("1.001"), {"amount": "1.00"}, "1.00"):
        problem = await acme.post(
            f"/v1/simulated-spends/{spend['simulation_id']}/{operation}", {member: wrong}, 400
        )
        assert problem["errors"][0]["pointer"].startswith(f"/{member}")


async def test_increment_without_an_amount_is_refused(acme: Caller) -> None:
    spend = await acme.spend(await acme.funded_card(), "10.00")
    assert await refused(acme, spend, "increment", {}, 400) == "validation-failed"
    assert await refused(acme, spend, "increment", None, 400) == "validation-failed"


@pytest.mark.parametrize("state", ["suspended", "terminated", "lost", "stolen"])
async def test_increment_on_an_inactive_card_is_refused(acme: Caller, state: str) -> None:
    card = await acme.funded_card()
    spend = await acme.spend(card, "10.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": state})
    assert await refused(acme, spend, "increment", body_of("increment"), 409) == "card-not-active"


@pytest.mark.parametrize(
    ("column", "slug"),
    [("network_txn_id", "network-transaction-unknown"), ("stan", "wire-identity-unknown")],
)
@pytest.mark.parametrize("operation", ["increment", "reverse", "clear"])
async def test_follow_up_of_a_spend_without_network_identifiers_is_refused(
    running: Installation, acme: Caller, operation: str, column: str, slug: str
) -> None:
    spend = await acme.spend(await acme.funded_card(), "10.00")
    both = ", rrn = NULL" if column == "stan" else ""
    await change(
        running,
        f"UPDATE simulations SET {column} = NULL{both} WHERE id = $1::uuid",
        spend["simulation_id"],
    )
    assert await refused(acme, spend, operation, body_of(operation), 409) == slug


async def test_verification_has_no_hold_to_follow_up(acme: Caller) -> None:
    spend = await acme.spend(await acme.funded_card(), "0")
    assert await refused(acme, spend, "reverse", None, 409) == "nothing-held"
    assert await refused(acme, spend, "clear", None, 409) == "nothing-to-clear"
    assert await refused(acme, spend, "expire", None, 409) == "nothing-held"


async def test_invalid_force_post_is_refused(acme: Caller) -> None:
    card = await acme.funded_card()
    body = {"card_id": card["id"], "amount": money("1.00"), "mcc": "5812", "merchant_name": "Bistro"}
    for wrong, pointer in (
        ({"amount": money("0")}, "/amount/amount"),
        ({"mcc": "58"}, "/mcc"),
        ({"merchant_name": ""}, "/merchant_name"),
        ({"channel": "pos"}, "/channel"),
    ):
        problem = await acme.post("/v1/simulated-clearings", body | wrong, 400)
        assert problem["errors"][0]["pointer"] == pointer
    assert (await acme.post("/v1/simulated-clearings", body | {"card_id": new_id()}, 404))["status"] == 404
    foreign = await acme.post("/v1/simulated-clearings", body | {"amount": money("1.00", "USD")}, 202)
    record = await acme.simulation(foreign["simulation_id"])
    assert (record["decision"], record["response_code"]) == ("declined", "12")
    assert await balance(acme, card) == ("100.00", "0.00", "100.00")
