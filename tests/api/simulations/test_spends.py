"""Simulated spends over the API: acceptance, decision and record."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.network.card_secrets import CardSecrets
from actors.network.roles import EdgeRole
from engine.threeds import OWN_BYTES, authentication_value
from ops.commands.authentication_key import set_key
from ops.commands.show_cards import show_test
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

CARD_ID = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
MONEY = {"amount": "1.00", "currency": "EUR"}


def spend_of(card_id_: str, **fields: Any) -> dict[str, Any]:
    return {
        "card_id": card_id_,
        "amount": MONEY,
        "mcc": "5411",
        "merchant_name": "Corner Shop",
        "channel": "pos",
    } | fields


async def test_accepted_spend_is_recorded_with_its_decision(acme: Caller) -> None:
    card = await acme.funded_card()
    accepted = await acme.post("/v1/simulated-spends", spend_of(card["id"], entry_mode="chip"), 202, key=None)
    assert set(accepted) == {"simulation_id", "accepted_at", "stan", "rrn", "network_txn_id"}
    record = await acme.simulation(accepted["simulation_id"])
    moments = [record.pop(name) for name in ("accepted_at", "sent_at", "decided_at")]
    assert moments == sorted(moments)
    assert record == {
        "simulation_id": accepted["simulation_id"],
        "parent_simulation_id": None,
        "operation": "spend",
        "kind": "purchase",
        "state": "decided",
        "card_id": card["id"],
        "amount": MONEY,
        "merchant_amount": None,
        "approved_amount": MONEY,
        "mcc": "5411",
        "merchant_name": "Corner Shop",
        "merchant_country": "IE",
        "merchant_id": None,
        "channel": "pos",
        "entry_mode": "chip",
        "scenario": None,
        "mit": False,
        "stan": accepted["stan"],
        "rrn": accepted["rrn"],
        "network_txn_id": accepted["network_txn_id"],
        "failed_at": None,
        "decision": "approved",
        "decline_reason": None,
        "decline_detail": None,
        "response_code": "00",
        "approval_code": record["approval_code"],
        "authorization_id": record["authorization_id"],
        "transaction_id": record["authorization_id"],
        "hold_id": record["hold_id"],
        "failure": None,
    }
    assert record["approval_code"]
    assert record["hold_id"]


async def test_spends_ignore_idempotency_keys(acme: Caller) -> None:
    card = await acme.funded_card()
    body = spend_of(card["id"])
    accepted = await asyncio.gather(
        *(acme.post("/v1/simulated-spends", body, 202, key="the same") for _ in range(8))
    )
    assert len({answer["stan"] for answer in accepted}) == 8
    records = [await acme.simulation(answer["simulation_id"]) for answer in accepted]
    assert {record["decision"] for record in records} == {"approved"}
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["held"] == "8.00"


@pytest.mark.parametrize("state", ["unactivated", "suspended", "terminated", "lost", "stolen"])
async def test_spend_on_an_inactive_card_is_refused(acme: Caller, state: str) -> None:
    card = await acme.funded_card(activate=state != "unactivated")
    if state != "unactivated":
        await acme.patch(f"/v1/cards/{card['id']}", {"state": state})
    refused = await acme.post("/v1/simulated-spends", spend_of(card["id"]), 409, key=None)
    assert refused["type"] == "/problems/card-not-active"


async def test_spend_on_a_card_of_another_tenant_is_refused(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    stranger = await running.caller("stranger")
    await stranger.post("/v1/simulated-spends", spend_of(card["id"]), 404, key=None)


async def test_network_of_the_release_before_gets_only_spends_on_active_cards(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card()
    suspended = await acme.funded_card()
    await acme.patch(f"/v1/cards/{suspended['id']}", {"state": "suspended"})
    async with running.on_earlier_network() as acme.http:
        accepted = await acme.post("/v1/simulated-spends", spend_of(card["id"]), 202, key=None)
        refused = await acme.post("/v1/simulated-spends", spend_of(suspended["id"]), 409, key=None)
        await acme.post("/v1/simulated-spends", spend_of(CARD_ID), 404, key=None)
        assert (await acme.simulation(accepted["simulation_id"]))["decision"] == "approved"
    assert refused["detail"] == "The card is suspended."


async def test_spend_in_another_currency_is_declined(acme: Caller) -> None:
    card = await acme.funded_card()
    record = await acme.spend(card, "1.00", "USD")
    assert (record["decision"], record["response_code"]) == ("declined", "12")
    assert record["decline_reason"] == "currency_not_supported"
    assert record["merchant_country"] == "US"


async def test_spend_of_zero_is_an_account_verification(acme: Caller) -> None:
    card = await acme.funded_card("0.01")
    record = await acme.spend(card, "0")
    assert (record["decision"], record["response_code"], record["hold_id"]) == ("approved", "85", None)
    assert (await acme.get(f"/v1/transactions/{record['transaction_id']}"))["kind"] == "verification"


async def test_refund_is_posted_when_it_is_approved(acme: Caller) -> None:
    card = await acme.funded_card("1.00")
    record = await acme.spend(card, "5.00", kind="refund")
    assert (record["decision"], record["kind"], record["hold_id"]) == ("approved", "refund", None)
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["posted"] == "6.00"


@pytest.mark.parametrize("amount", ["10.00", "150.00"])
async def test_network_stand_in_decision_is_equal_in_all_views(acme: Caller, amount: str) -> None:
    """The platform answers too late: it approves 10.00 and declines 150.00. The decision of the network
    replaces both."""
    card = await acme.funded_card("100.00")
    record = await acme.spend(card, amount, scenario="force_stip_timeout")
    transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
    listed = (await acme.get(f"/v1/transactions?card_id={card['id']}"))["data"]
    page = await acme.get("/v1/events?types=authorization.decided")
    newest, first = [event for event in page["data"] if event["data"]["card_id"] == card["id"]]
    assert first["data"]["decided_by"] == "platform"
    assert newest["data"]["supersedes"] == first["id"]
    assert newest["data"]["hold_id"] == record["hold_id"] == transaction["hold_id"]
    for told in (transaction, newest["data"]):
        assert (told["decision"], told["decided_by"]) == ("approved", "network_stand_in")
        assert (told["approved_amount"], told["authorization_id"]) == (amount, record["authorization_id"])
    assert (record["decision"], record["decline_reason"]) == ("approved", None)
    assert (transaction["decline_reason"], transaction["status"]) == (None, "pending")
    assert transaction["network"]["approval_code"] == record["approval_code"]
    assert transaction["network"]["response_code"] == record["response_code"] == "00"
    assert (transaction["trace"][-1]["rule"], transaction["held_amount"]) == ("funds", amount)
    assert [each["decided_by"] for each in listed] == ["network_stand_in"]


async def test_partial_approval_is_limited_by_funds_and_requested_cap(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    record = await acme.spend(card, "25.00", scenario="partial_approval")
    assert (record["response_code"], record["approved_amount"]["amount"]) == ("10", "10.00")
    card = await acme.funded_card("10.00")
    cap = {"amount": "4.00", "currency": "EUR"}
    record = await acme.spend(card, "25.00", scenario="partial_approval", approved_amount=cap)
    assert (record["response_code"], record["approved_amount"]["amount"]) == ("10", "4.00")
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["held"] == "4.00"


async def test_converted_spend_is_held_in_the_currency_of_the_card(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    charged = {"amount": "1000", "currency": "JPY"}
    record = await acme.spend(card, "6.13", merchant_amount=charged)
    assert (record["decision"], record["merchant_amount"]) == ("approved", charged)
    assert record["approved_amount"] == {"amount": "6.13", "currency": "EUR"}
    transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
    assert (transaction["held_amount"], transaction["merchant_amount"]) == ("6.13", charged)
    assert transaction["conversion_rate"] == "0.00613"


async def test_life_of_a_converted_spend(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    spend = await acme.spend(card, "6.13", merchant_amount={"amount": "1000", "currency": "JPY"})
    path = f"/v1/simulated-spends/{spend['simulation_id']}"
    balance = f"/v1/cards/{card['id']}/balance"
    raised = await acme.post(f"{path}/increment", {"raise_by_amount": MONEY}, 202)
    assert (await acme.simulation(raised["simulation_id"]))["decision"] == "approved"
    lower = {"lower_by_amount": {"amount": "3.13", "currency": "EUR"}}
    lowered = await acme.post(f"{path}/reverse", lower, 202)
    assert (await acme.simulation(lowered["simulation_id"]))["amount"]["amount"] == "3.13"
    assert (await acme.get(balance))["held"] == "4.00"
    cleared = await acme.post(f"{path}/clear", {"amount": {"amount": "4.20", "currency": "EUR"}}, 202)
    assert (await acme.simulation(cleared["simulation_id"]))["decision"] == "approved"
    shown = await acme.get(balance)
    assert (shown["posted"], shown["held"]) == ("95.80", "0.00")


async def test_partial_approval_of_a_converted_spend(acme: Caller) -> None:
    card = await acme.funded_card("10.00")
    charged = {"amount": "5000", "currency": "JPY"}
    record = await acme.spend(card, "30.65", scenario="partial_approval", merchant_amount=charged)
    assert (record["response_code"], record["approved_amount"]["amount"]) == ("10", "10.00")
    path = f"/v1/simulated-spends/{record['simulation_id']}/clear"
    cleared = await acme.simulation((await acme.post(path, {}, 202))["simulation_id"])
    assert cleared["amount"]["amount"] == "10.00"
    assert cleared["merchant_amount"] == {"amount": "1631", "currency": "JPY"}
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["posted"] == "0.00"


async def test_amount_too_large_for_the_wire_fails_before_a_message_is_built(acme: Caller) -> None:
    card = await acme.funded_card()
    amount = {"amount": "9999999999999999.99", "currency": "EUR"}
    accepted = await acme.post("/v1/simulated-spends", spend_of(card["id"], amount=amount), 202, key=None)
    assert (accepted["stan"], accepted["rrn"]) == (None, None)
    record = await acme.simulation(accepted["simulation_id"])
    assert (record["state"], record["failure"]["stage"]) == ("failed", "pre_build")


async def test_wrong_cvv2_and_denied_country_are_declined(acme: Caller) -> None:
    card = await acme.funded_card(controls=[{"kind": "country_deny", "values": ["FR"]}])
    assert (await acme.spend(card, "1.00", merchant_country="FR"))["decline_reason"] == "country_not_allowed"
    wrong = [await acme.spend(card, "1.00", scenario="cvv2_presented", cvv2=cvv2) for cvv2 in ("000", "999")]
    assert "cvv2_mismatch" in {record["decline_reason"] for record in wrong}
    assert all("cvv2" not in record for record in wrong)


async def test_card_data_and_amount_cap_need_no_scenario(acme: Caller) -> None:
    card = await acme.funded_card("100.00")
    right = (await acme.post(f"/v1/cards/{card['id']}/cvv2", {}, 200))["cvv2"]
    wrong = f"{(int(right) + 1) % 1000:03d}"
    value = "AAABBEg0VhI0VniQEjRWAAAAAAA="
    table: list[tuple[dict[str, Any], tuple[str, str, str | None]]] = [
        # Members of the request; then the rule, its outcome and the decline reason.
        ({"cvv2": right}, ("cvv2", "pass", None)),
        ({"cvv2": wrong}, ("cvv2", "fail", "cvv2_mismatch")),
        ({"cvv2": right, "scenario": "partial_approval"}, ("cvv2", "pass", None)),
        ({"auth_value": value, "threeds_ref": CARD_ID}, ("authentication", "pass", None)),
        ({"auth_value": value}, ("authentication", "fail", "authentication_failed")),
        ({"threeds_ref": CARD_ID}, ("authentication", "fail", "authentication_failed")),
        ({}, ("cvv2", "skip", None)),
    ]
    for fields, (rule, outcome, reason) in table:
        record = await acme.spend(card, "1.00", **fields)
        transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
        steps = {step["rule"]: step for step in transaction["trace"]}
        assert (record["decline_reason"], steps[rule]["outcome"]) == (reason, outcome), fields
        assert steps["expiry"]["outcome"] == "pass"
        if rule == "authentication":
            assert steps[rule]["observed"] == ("malformed" if reason else "present")
    capped = await acme.spend(card, "5.00", approved_amount=MONEY)
    assert (capped["response_code"], capped["approved_amount"]) == ("10", MONEY)


@pytest.mark.parametrize(
    ("entry_mode", "checks"),
    [
        (None, set()),
        ("manual", set()),
        ("magstripe", {"cvv1"}),
        ("chip", {"cvv1", "chip_data"}),
        ("contactless", {"cvv1", "chip_data"}),
    ],
)
async def test_entry_mode_determines_the_card_data(
    acme: Caller, entry_mode: str | None, checks: set[str]
) -> None:
    card = await acme.funded_card()
    record = await acme.spend(card, "1.00", entry_mode=entry_mode)
    assert record["response_code"] == "00"
    transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
    steps = {step["rule"]: step for step in transaction["trace"]}
    assert steps["expiry"]["outcome"] == "pass"
    assert {"cvv1", "chip_data"} & set(steps) == checks
    if "cvv1" in checks:
        assert steps["cvv1"] == {"rule": "cvv1", "outcome": "pass", "observed": "0", "limit": "5"}
    if "chip_data" in checks:
        assert (steps["chip_data"]["outcome"], steps["chip_data"]["limit"]) == ("skip", None)
        tags = dict(each.split("=") for each in steps["chip_data"]["observed"].split())
        assert (tags["9F02"], tags["5F2A"], tags["9F26"]) == ("000000000100", "0978", "****")


async def test_authentication_value_is_verified_with_the_key_of_the_programme(
    running: Installation, acme: Caller
) -> None:
    services, edge = running.services, running.peers.roles["edge"]
    assert isinstance(edge, EdgeRole)
    card = await acme.funded_card()
    key = bytes(range(32))
    (number,) = await show_test(services.settings.database_dsn, services.vault, [card["id"]])
    good = authentication_value(key, number.pan, CARD_ID, bytes(OWN_BYTES))
    other = authentication_value(bytes(32), number.pan, CARD_ID, bytes(OWN_BYTES))

    async def judged(value: str) -> tuple[str | None, dict[str, Any]]:
        record = await acme.spend(
            card,
            "1.00",
            channel="ecommerce",
            auth_value=value,
            threeds_ref=CARD_ID,
            scenario="cavv_presented",
        )
        transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
        (step,) = [each for each in transaction["trace"] if each["rule"] == "authentication"]
        return record["decline_reason"], step

    step = {"rule": "authentication", "outcome": "pass", "observed": "present", "limit": "present"}
    assert await judged(other) == (None, step)
    await set_key(services.settings.database_dsn, services.vault, card["programme_id"], key)
    await edge.authentication_keys.refresh()
    verified = step | {"observed": "valid", "limit": "valid"}
    assert await judged(good) == (None, verified)
    assert await judged(other) == (
        "authentication_failed",
        verified | {"outcome": "fail", "observed": "invalid"},
    )


async def test_card_data_of_a_terminal_are_stored_nowhere(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    services = running.services
    (shown,) = await show_test(services.settings.database_dsn, services.vault, [card["id"]])
    for entry_mode in ("magstripe", "chip"):
        await acme.spend(card, "1.00", entry_mode=entry_mode)
    card_secrets = CardSecrets(services.vault)
    chip_track = card_secrets.chip_track_2(shown.pan, shown.exp_year, shown.exp_month, "1")
    secrets = (shown.pan, shown.track2[-20:], chip_track[-20:], shown.pan.encode().hex())
    rows = ""
    for table in ("journal", "simulations", "transactions", "events"):
        found = await services.pool.fetch(
            f"SELECT t::text AS row FROM {table} t WHERE t::text LIKE '%' || $1 || '%'", card["id"]
        )
        assert found, table
        rows += "".join(row["row"] for row in found)
    assert "9F26=****" in rows
    assert not any(secret in rows for secret in secrets)


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"card_id": "4000001234567899"}, "/card_id"),
        ({"mcc": "541"}, "/mcc"),
        ({"mcc": 5411}, "/mcc"),
        ({"merchant_name": " "}, "/merchant_name"),
        ({"channel": "phone"}, "/channel"),
        ({"entry_mode": "swipe"}, "/entry_mode"),
        ({"merchant_amount": {"amount": "1", "currency": "EUR"}}, "/merchant_amount/currency"),
        ({"merchant_amount": {"amount": "1", "currency": "XAU"}}, "/merchant_amount/currency"),
        ({"merchant_amount": {"amount": "1.5", "currency": "JPY"}}, "/merchant_amount/amount"),
        ({"merchant_amount": {"amount": "0", "currency": "JPY"}}, "/merchant_amount/amount"),
        ({"merchant_amount": {"amount": "-1", "currency": "JPY"}}, "/merchant_amount/amount"),
        (
            {
                "amount": {"amount": "0", "currency": "EUR"},
                "merchant_amount": {"amount": "1", "currency": "JPY"},
            },
            "/merchant_amount",
        ),
        ({"scenario": "explode"}, "/scenario"),
        ({"mit": "true"}, "/mit"),
        ({"kind": "sale"}, "/kind"),
        ({"merchant_country": "ie"}, "/merchant_country"),
        ({"merchant_country": "ZZ"}, "/merchant_country"),
        ({"merchant_id": "SIXTEEN-LETTERS-"}, "/merchant_id"),
        ({"merchant_id": " SHOP"}, "/merchant_id"),
        ({"approved_amount": MONEY, "kind": "refund"}, "/approved_amount"),
        ({"approved_amount": MONEY | {"currency": "USD"}}, "/approved_amount/currency"),
        (
            {"scenario": "partial_approval", "approved_amount": MONEY | {"currency": "USD"}},
            "/approved_amount/currency",
        ),
        ({"scenario": "partial_approval", "approved_amount": "1.00"}, "/approved_amount"),
        ({"scenario": "partial_approval", "kind": "refund"}, "/scenario"),
        ({"cvv2": "12"}, "/cvv2"),
        ({"scenario": "cvv2_presented"}, "/cvv2"),
        ({"scenario": "cvv2_presented", "cvv2": "12"}, "/cvv2"),
        ({"scenario": "cavv_presented", "threeds_ref": CARD_ID}, "/auth_value"),
        ({"scenario": "cavv_presented", "auth_value": "abc", "threeds_ref": "x"}, "/threeds_ref"),
        ({"auth_value": "a b"}, "/auth_value"),
        ({"simulation_id": CARD_ID}, "/simulation_id"),
    ],
)
async def test_invalid_spend_is_refused(acme: Caller, fields: dict[str, Any], pointer: str) -> None:
    problem = await acme.post("/v1/simulated-spends", spend_of(CARD_ID, **fields), 400, key=None)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_list_finds_the_simulations_of_a_transaction(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    spend, other = await acme.spend(card, "20.00"), await acme.spend(card, "1.00")
    path = f"/v1/simulated-spends/{spend['simulation_id']}"
    cleared = await acme.post(f"{path}/clear", {"amount": {"amount": "5.00", "currency": "EUR"}}, 202)
    await acme.simulation(cleared["simulation_id"])

    async def found(caller: Caller, transaction_id: str, query: str = "") -> list[str]:
        rows = await caller.get(f"/v1/simulated-spends?transaction_id={transaction_id}{query}")
        return [each["simulation_id"] for each in rows["data"]]

    both = sorted((cleared["simulation_id"], spend["simulation_id"]), reverse=True)
    assert await found(acme, spend["transaction_id"]) == both
    assert await found(acme, spend["transaction_id"], "&operation=clearing") == [cleared["simulation_id"]]
    assert await found(acme, spend["transaction_id"], f"&limit=1&starting_after={both[0]}") == both[1:]
    assert await found(acme, other["transaction_id"]) == [other["simulation_id"]]
    assert await found(acme, CARD_ID) == []
    stranger = await running.caller(f"{tenant}-other")
    assert await found(stranger, spend["transaction_id"]) == []
