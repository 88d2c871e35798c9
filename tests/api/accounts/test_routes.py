"""Accounts over the API: balances of cards, funding sources and settlement accounts."""

from __future__ import annotations

from typing import Any

from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def accounts_of(caller: Caller, programme_id: str) -> dict[str, Any]:
    """The accounts of a programme by kind."""
    listed = await caller.get(f"/v1/accounts?programme_id={programme_id}")
    return {row["kind"]: row for row in listed["data"]}


async def test_account_shows_the_balance_of_its_cards(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    await acme.spend(card, "30.00")
    account = await acme.get(f"/v1/accounts/{card['funding_account_id']}")
    assert account == {
        "id": card["funding_account_id"],
        "programme_id": card["programme_id"],
        "kind": "card",
        "currency": "EUR",
        "posted": "100.00",
        "held": "30.00",
        "available": "70.00",
        "cards": 1,
        "as_of": account["as_of"],
        "version": 3,
    }
    listed = (await accounts_of(acme, card["programme_id"]))["card"]
    assert listed | {"as_of": ""} == account | {"as_of": ""}


async def test_account_counts_the_cards_that_share_it(acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    first = await acme.card(product, holder)
    second = await acme.card(product, holder, funding_account_id=first["funding_account_id"])
    await acme.load(second, "20.00")
    account = await acme.get(f"/v1/accounts/{first['funding_account_id']}")
    assert (account["cards"], account["posted"]) == (2, "20.00")


async def test_entries_of_a_programme_add_up_to_zero(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "30.00")
    cleared = await acme.post(
        f"/v1/simulated-spends/{spend['simulation_id']}/clear",
        {"amount": {"amount": "30.00", "currency": "EUR"}},
        202,
    )
    await acme.simulation(cleared["simulation_id"])
    await acme.spend(card, "5.00", kind="refund")
    accounts = await accounts_of(acme, card["programme_id"])
    posted = {kind: account["posted"] for kind, account in accounts.items()}
    assert posted == {"card": "75.00", "funding_source": "-100.00", "settlement": "25.00"}
    for kind in ("funding_source", "settlement"):
        account = await acme.get(f"/v1/accounts/{accounts[kind]['id']}")
        assert account | {"as_of": ""} == accounts[kind] | {"as_of": ""}
        assert (account["held"], account["available"], account["cards"]) == ("0.00", account["posted"], 0)
    assert accounts["settlement"]["version"] == 3


async def test_accounts_are_listed_by_kind(acme: Caller) -> None:
    first, second = await acme.funded_card(), await acme.funded_card()
    listed = (await acme.get("/v1/accounts?kind=card"))["data"]
    assert [row["id"] for row in listed] == [second["funding_account_id"], first["funding_account_id"]]
    page = await acme.get("/v1/accounts?limit=4")
    rest = await acme.get(f"/v1/accounts?starting_after={page['next_cursor']}")
    assert (len(page["data"]), len(rest["data"]), rest["has_more"]) == (4, 2, False)


async def test_balance_survives_a_change_of_owner(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    await acme.spend(card, "30.00")
    before = await acme.get(f"/v1/accounts/{card['funding_account_id']}")
    await running.replace_host()
    after = await acme.get(f"/v1/accounts/{card['funding_account_id']}")
    assert after | {"as_of": ""} == before | {"as_of": ""}


async def test_unfunded_programme_has_empty_accounts(acme: Caller) -> None:
    accounts = await accounts_of(acme, (await acme.programme())["id"])
    assert {kind: account["posted"] for kind, account in accounts.items()} == {
        "funding_source": "0.00",
        "settlement": "0.00",
    }
