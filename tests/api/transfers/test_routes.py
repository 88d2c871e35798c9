"""Transfers over the API: posted, listed, reversed once, refused without a change."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.ids import new_id
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def transfer_of(card: Any, value: str = "30.00", **members: Any) -> dict[str, Any]:
    """The body of a load of ``card``."""
    body = {
        "account_id": card["funding_account_id"],
        "direction": "credit",
        "amount": {"amount": value, "currency": "EUR"},
        "kind": "load",
    }
    return body | members


def debit_of(card: Any, value: str = "30.00", **members: Any) -> dict[str, Any]:
    return transfer_of(card, value, **{"direction": "debit", "kind": "unload"} | members)


async def posted(caller: Caller, card: Any) -> str:
    """The posted balance of ``card``'s account."""
    account = await caller.get(f"/v1/accounts/{card['funding_account_id']}")
    return str(account["posted"])


@pytest.mark.parametrize("mode", ["test", "live"])
async def test_transfer_moves_money_from_the_funding_source_in_both_modes(
    running: Installation, tenant: str, mode: str
) -> None:
    caller = await running.caller(tenant, mode=mode)
    programme = await caller.programme()
    card = await caller.card(await caller.product(programme), await caller.cardholder(programme))
    body = transfer_of(card, external_ref="PAY-7", description="Salary", metadata={"run": "11"})
    made = await caller.post("/v1/transfers", body)
    assert made == {
        "id": made["id"],
        "account_id": card["funding_account_id"],
        "programme_id": programme["id"],
        "direction": "credit",
        "kind": "load",
        "amount": {"amount": "30.00", "currency": "EUR"},
        "status": "posted",
        "external_ref": "PAY-7",
        "description": "Salary",
        "metadata": {"run": "11"},
        "created_at": made["created_at"],
        "reversal_id": None,
        "reversed_at": None,
    }
    assert await caller.get(f"/v1/transfers/{made['id']}") == made
    assert (await caller.get(f"/v1/cards/{card['id']}/balance"))["available"] == "30.00"
    source = (await caller.get(f"/v1/accounts?programme_id={programme['id']}&kind=funding_source"))["data"][0]
    assert (source["posted"], source["available"]) == ("-30.00", "-30.00")
    event = (await caller.get("/v1/events?types=ledger.entry.posted"))["data"][0]
    assert (event["data"]["transfer_id"], event["data"]["available"]) == (made["id"], "30.00")


async def test_repeated_transfer_posts_once(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    sent = [acme.send("POST", "/v1/transfers", transfer_of(card), key="pay") for _ in range(8)]
    answers = await asyncio.gather(*sent)
    done = {answer.content for answer in answers if answer.status_code == 201}
    assert len(done) == 1
    assert {answer.status_code for answer in answers} <= {201, 409}
    assert await posted(acme, card) == "40.00"


async def test_debit_above_the_available_balance_needs_allow_negative(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    await acme.spend(card, "80.00")
    problem = await acme.post("/v1/transfers", debit_of(card), 409)
    assert problem["type"] == "/problems/insufficient-funds"
    assert await posted(acme, card) == "100.00"
    await acme.post("/v1/transfers", debit_of(card, kind="fee", allow_negative=True))
    account = await acme.get(f"/v1/accounts/{card['funding_account_id']}")
    assert (account["posted"], account["held"], account["available"]) == ("70.00", "80.00", "-10.00")


@pytest.mark.parametrize(
    ("members", "pointer", "code"),
    [
        ({"kind": "load", "direction": "debit"}, "/direction", "not_allowed"),
        ({"kind": "unload", "direction": "credit"}, "/direction", "not_allowed"),
        ({"kind": "fee", "direction": "credit"}, "/direction", "not_allowed"),
        ({"kind": "gift"}, "/kind", "not_allowed"),
        ({"direction": "in"}, "/direction", "not_allowed"),
        ({"allow_negative": True}, "/allow_negative", "not_allowed"),
        ({"amount": {"amount": "0.00", "currency": "EUR"}}, "/amount/amount", "range"),
        ({"amount": {"amount": "-1.00", "currency": "EUR"}}, "/amount/amount", "format"),
        ({"amount": {"amount": "1.001", "currency": "EUR"}}, "/amount/amount", "format"),
        ({"amount": {"amount": "9" * 17, "currency": "EUR"}}, "/amount/amount", "format"),
        ({"amount": {"amount": "1.00", "currency": "CHF"}}, "/amount/currency", "not_allowed"),
        ({"account_id": "account"}, "/account_id", "format"),
        ({"external_ref": ""}, "/external_ref", "length"),
        ({"description": "x" * 256}, "/description", "length"),
        ({"metadata": {f"key{number}": "" for number in range(21)}}, "/metadata", "length"),
        ({"metadata": {"key": "x" * 501}}, "/metadata/key", "length"),
        ({"fee": True}, "/fee", "unknown_field"),
    ],
)
async def test_invalid_transfer_names_its_member_and_changes_nothing(
    acme: Caller, members: dict[str, Any], pointer: str, code: str
) -> None:
    card = await acme.funded_card("10.00")
    problem = await acme.post("/v1/transfers", transfer_of(card, **members), 400)
    assert problem["type"] == "/problems/validation-failed"
    assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(pointer, code)]
    assert await posted(acme, card) == "10.00"


async def test_transfer_in_another_currency_names_the_currency(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    dollars = {"amount": "1.00", "currency": "USD"}
    problem = await acme.post("/v1/transfers", transfer_of(card, amount=dollars), 400)
    assert problem["type"] == "/problems/currency-mismatch"
    assert [error["pointer"] for error in problem["errors"]] == ["/amount/currency"]


async def test_largest_balance_is_not_exceeded(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    problem = await acme.post("/v1/transfers", transfer_of(card, "9999999999999999.99"), 409)
    assert problem["type"] == "/problems/balance-limit-exceeded"


async def test_only_card_accounts_take_part(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    for kind in ("funding_source", "settlement"):
        listed = await acme.get(f"/v1/accounts?programme_id={card['programme_id']}&kind={kind}")
        body = transfer_of(card, account_id=listed["data"][0]["id"])
        problem = await acme.post("/v1/transfers", body, 400)
        assert [error["pointer"] for error in problem["errors"]] == ["/account_id"]


async def test_accounts_of_others_do_not_exist(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card("10.00")
    rival = await running.caller(f"{tenant}-rival")
    live = await running.caller(acme.credentials.name, mode="live")
    unknown = await acme.post("/v1/transfers", transfer_of(card, account_id=new_id()), 404)
    for other in (rival, live):
        problem = await other.post("/v1/transfers", transfer_of(card), 404)
        assert problem | {"instance": ""} == unknown | {"instance": ""}
    assert [error["pointer"] for error in unknown["errors"]] == ["/account_id"]
    assert await posted(acme, card) == "10.00"


async def test_reversal_posts_the_opposite_entries_once(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    made = await acme.post("/v1/transfers", transfer_of(card))
    path = f"/v1/transfers/{made['id']}/reverse"
    reversed_ = await acme.post(path, None, 200, key="undo")
    assert reversed_ == made | {
        "status": "reversed",
        "reversal_id": reversed_["reversal_id"],
        "reversed_at": reversed_["reversed_at"],
    }
    assert await acme.get(f"/v1/transfers/{made['id']}") == reversed_
    entries = (await acme.get(f"/v1/ledger-entries?transfer_id={reversed_['reversal_id']}"))["data"]
    directions = {entry["account_id"]: entry["direction"] for entry in entries}
    assert (len(entries), directions[card["funding_account_id"]]) == (2, "debit")
    assert await posted(acme, card) == "10.00"
    again = await acme.send("POST", path, None, key="undo")
    assert (again.status_code, again.json()) == (200, reversed_)
    assert (await acme.post(path, {}, 409))["type"] == "/problems/transfer-reversed"
    assert await posted(acme, card) == "10.00"


async def test_concurrent_reversals_post_once(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    made = await acme.post("/v1/transfers", transfer_of(card))
    path = f"/v1/transfers/{made['id']}/reverse"
    answers = await asyncio.gather(*(acme.send("POST", path, {}) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    problems = {answer.json()["type"] for answer in answers if answer.status_code == 409}
    assert problems == {"/problems/transfer-reversed"}
    assert await posted(acme, card) == "10.00"


async def test_reversal_of_a_spent_load_needs_allow_negative(acme: Caller) -> None:
    card = await acme.funded_card("50.00")
    (load,) = (await acme.get(f"/v1/transfers?account_id={card['funding_account_id']}"))["data"]
    await acme.spend(card, "20.00")
    path = f"/v1/transfers/{load['id']}/reverse"
    assert (await acme.post(path, {}, 409))["type"] == "/problems/insufficient-funds"
    assert (await acme.post(path, {"allow_negative": True}, 200))["status"] == "reversed"
    account = await acme.get(f"/v1/accounts/{card['funding_account_id']}")
    assert (account["posted"], account["available"]) == ("0.00", "-20.00")


async def test_transfer_pays_out_a_terminated_card(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "terminated"})
    await acme.post("/v1/transfers", debit_of(card, "10.00"))
    assert await posted(acme, card) == "0.00"


async def test_list_is_filtered_by_every_parameter(acme: Caller) -> None:
    first, second = await acme.funded_card("5.00"), await acme.funded_card("6.00")
    fee = await acme.post("/v1/transfers", debit_of(first, "1.00", kind="fee", external_ref="F-1"))

    async def amounts(query: str) -> list[str]:
        listed = await acme.get(f"/v1/transfers?{query}")
        return [row["amount"]["amount"] for row in listed["data"]]

    assert await amounts("") == ["1.00", "6.00", "5.00"]
    assert await amounts(f"account_id={first['funding_account_id']}") == ["1.00", "5.00"]
    assert await amounts(f"programme_id={second['programme_id']}") == ["6.00"]
    assert await amounts("kind=load") == ["6.00", "5.00"]
    assert await amounts("external_ref=F-1") == ["1.00"]
    own = f"account_id={first['funding_account_id']}"
    assert await amounts(f"{own}&external_ref=F-1&programme_id={first['programme_id']}") == ["1.00"]
    assert await amounts(f"{own}&programme_id={second['programme_id']}") == []
    assert await amounts(f"from={fee['created_at']}") == ["1.00"]
    assert await amounts(f"to={fee['created_at']}") == ["6.00", "5.00"]
    assert await amounts(f"starting_after={fee['id']}&limit=1") == ["6.00"]


async def test_only_administrators_move_money(running: Installation, acme: Caller, tenant: str) -> None:
    card = await acme.funded_card("10.00")
    user = await running.caller(acme.credentials.name, role="user")
    problem = await user.post("/v1/transfers", transfer_of(card), 403)
    assert problem["type"] == "/problems/role-not-allowed"
    assert len((await user.get("/v1/transfers"))["data"]) == 1
