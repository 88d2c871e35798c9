"""Ledger entries over the API."""

from __future__ import annotations

from typing import Any

from tests.support.api.driver import Caller


async def entries(caller: Caller, query: str) -> list[Any]:
    rows: list[Any] = (await caller.get(f"/v1/ledger-entries?{query}"))["data"]
    return rows


async def cleared_spend(caller: Caller, card: Any, amount: str) -> Any:
    """A spend of ``card`` that was presented in two parts."""
    spend = await caller.spend(card, amount)
    half = {"amount": {"amount": "10.00", "currency": "EUR"}}
    for final in (False, True):
        path = f"/v1/simulated-spends/{spend['simulation_id']}/clear"
        child = await caller.post(path, half | {"final": final}, 202)
        await caller.simulation(child["simulation_id"])
    return spend


async def test_entries_of_an_account_are_listed_newest_first(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await cleared_spend(acme, card, "20.00")
    listed = await entries(acme, f"account_id={card['funding_account_id']}")
    assert [(row["direction"], row["amount"]["amount"]) for row in listed] == [
        ("debit", "10.00"),
        ("debit", "10.00"),
        ("credit", "100.00"),
    ]
    assert [row["authorization_id"] for row in listed] == [spend["authorization_id"]] * 2 + [None]
    first = await entries(acme, f"account_id={card['funding_account_id']}&limit=1")
    rest = await entries(
        acme, f"account_id={card['funding_account_id']}&starting_after={first[0]['id']}&limit=2"
    )
    assert first + rest == listed
    since = f"account_id={card['funding_account_id']}&from={listed[1]['created_at']}"
    assert await entries(acme, since) == listed[:2]


async def test_entries_of_an_authorization_have_both_sides(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await cleared_spend(acme, card, "20.00")
    await cleared_spend(acme, card, "20.00")
    listed = await entries(acme, f"authorization_id={spend['authorization_id']}")
    assert len(listed) == 4
    assert {row["authorization_id"] for row in listed} == {spend["authorization_id"]}
    credits_ = {row["transfer_id"] for row in listed if row["direction"] == "credit"}
    debits = {row["transfer_id"] for row in listed if row["direction"] == "debit"}
    assert (credits_, len(debits)) == (debits, 2)
    own = f"authorization_id={spend['authorization_id']}&account_id={card['funding_account_id']}"
    assert {row["direction"] for row in await entries(acme, own)} == {"debit"}


async def test_entries_of_a_refund_and_of_its_reversal(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    refund = await acme.spend(card, "5.00", kind="refund")
    listed = await entries(acme, f"authorization_id={refund['authorization_id']}")
    assert [row["amount"]["amount"] for row in listed] == ["5.00", "5.00"]


async def test_entries_of_a_transfer_are_its_two_sides(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    (load,) = (await acme.get("/v1/transfers"))["data"]
    listed = await entries(acme, f"transfer_id={load['id']}")
    assert {(row["account_id"] == card["funding_account_id"], row["direction"]) for row in listed} == {
        (True, "credit"),
        (False, "debit"),
    }
    assert {row["created_at"] for row in listed} == {load["created_at"]}


async def test_list_without_an_id_is_refused(acme: Caller) -> None:
    problem = await acme.get("/v1/ledger-entries", 400)
    assert problem["type"] == "/problems/validation-failed"
    assert [error["code"] for error in problem["errors"]] == ["missing"]
