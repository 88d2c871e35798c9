"""Stand-in decisions and their report; the ``delegated_timeout`` scenario makes the programme time out."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.ids import new_id
from engine.programmes.stand_in import APPROVING
from tests.support.api.delegation import (
    activity,
    declare,
    delegated_card,
    money,
    one_more_card,
    policy,
    put_policy,
    recent,
)
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

FAR = "from=2026-01-01T00:00:00Z"

# In order of precedence; each row also violates all rules below its own.
_HOPELESS = {"mcc_list": ["5411"], "max_amount": "1.00", "max_total_exposure": money("0.00")}
RULES = [
    ("mode_disabled", _HOPELESS | {"mode": "disabled"}, None, "05"),
    ("mode_decline_all", _HOPELESS | {"mode": "decline_all", "max_amount": None}, None, "05"),
    ("max_amount_not_set", _HOPELESS | {"max_amount": None, "max_total_exposure": None}, None, "05"),
    ("max_total_exposure_not_set", _HOPELESS | {"max_total_exposure": None}, None, "05"),
    ("currency_mismatch", _HOPELESS | {"max_total_exposure": money("0.00", "USD")}, None, "05"),
    ("mcc_not_permitted", _HOPELESS, None, "05"),
    ("declared_balance_missing", _HOPELESS | {"mcc_list": []}, None, "05"),
    ("max_amount_exceeded", _HOPELESS | {"mcc_list": []}, "5.00", "61"),
    ("declared_balance_exceeded", {"max_total_exposure": money("0.00")}, "5.00", "51"),
    ("max_total_exposure_exceeded", {"max_total_exposure": money("19.99")}, "20.00", "61"),
    (APPROVING, {"max_total_exposure": money("20.00"), "max_amount": "20.00"}, "20.00", "00"),
]


async def silence(caller: Caller, card: Any, amount: str, **fields: Any) -> Any:
    """The record of a spend whose decision endpoint times out."""
    return await caller.spend(card, amount, scenario="delegated_timeout", **fields)


@pytest.mark.parametrize(("rule", "parts", "declared", "response_code"), RULES)
async def test_rules_are_applied_in_order_of_precedence(
    acme: Caller, rule: str, parts: Any, declared: str | None, response_code: str
) -> None:
    card = await delegated_card(acme, policy(**parts), declared=declared)
    record = await silence(acme, card, "20.00")
    approved = rule == APPROVING
    assert (record["decision"], record["response_code"]) == (
        "approved" if approved else "declined",
        response_code,
    )
    assert record["decline_reason"] == (None if approved else "stand_in_declined")
    [entry] = await activity(acme, card["programme_id"])
    limit = parts.get("max_total_exposure", money("100.00"))
    assert entry == {
        "id": entry["id"],
        "programme_id": card["programme_id"],
        "card_id": card["id"],
        "authorization_id": record["authorization_id"],
        "outage_id": entry["outage_id"],
        "decided_at": entry["decided_at"],
        "decision": record["decision"],
        "rule": rule,
        "trigger": "timeout",
        "amount": "20.00",
        "currency": "EUR",
        "mcc": "5411",
        "exposure_minor": "2000" if approved else "0",
        "budget_used_minor": "2000" if approved else "0",
        "budget_limit_minor": limit and str(int(limit["amount"].replace(".", ""))),
        "response_code": response_code,
        "stan": record["stan"],
        "rrn": record["rrn"],
    }
    assert entry["outage_id"] is not None


async def test_timeout_of_the_decision_endpoint_is_decided_by_stand_in(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    record = await silence(acme, card, "30.00")
    assert (record["scenario"], record["decision"], record["approved_amount"]) == (
        "delegated_timeout",
        "approved",
        money("30.00"),
    )
    transaction = await acme.get(f"/v1/transactions/{record['transaction_id']}")
    assert (transaction["decided_by"], transaction["status"]) == ("stand_in", "pending")
    trace = [
        (step["rule"], step["outcome"], step["observed"], step["limit"]) for step in transaction["trace"]
    ]
    assert trace[-4:] == [
        ("funds", "skip", None, None),
        ("programme_decision", "skip", "timeout", "approved"),
        ("stand_in", "pass", "within_ceilings", "within_ceilings"),
        ("stand_in_budget", "pass", "30.00", "100.00"),
    ]
    assert (await acme.post(f"/v1/transactions/{record['transaction_id']}/replay", status=200))["identical"]
    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["posted"], balance["held"], balance["available"]) == ("100.00", "30.00", "70.00")
    declared = await acme.get(f"/v1/cards/{card['id']}/declared-balance")
    assert (declared["consumed"], declared["remaining"]) == (money("30.00"), money("70.00"))
    told = (await acme.get("/v1/events?types=authorization.decided"))["data"]
    assert [event["data"]["decided_by"] for event in told] == ["stand_in"]
    declined = await silence(acme, card, "50.01")
    assert (declined["decline_reason"], declined["response_code"]) == ("stand_in_declined", "61")
    await declare(acme, card, "5.00")
    assert (await acme.get(f"/v1/cards/{card['id']}/declared-balance"))["consumed"] == money("0.00")
    assert (await silence(acme, card, "5.01"))["response_code"] == "51"


async def test_card_controls_decline_before_stand_in(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    controls = [{"kind": "mcc_deny", "values": ["7995"]}]
    await acme.patch(f"/v1/cards/{card['id']}", {"controls": controls})
    refused = await silence(acme, card, "1.00", mcc="7995")
    assert (refused["decline_reason"], refused["response_code"]) == ("mcc_not_allowed", "57")
    assert await activity(acme, card["programme_id"]) == []


async def test_failure_without_a_trigger_declines_as_programme_declined(acme: Caller) -> None:
    card = await delegated_card(acme, policy(triggers={"timeout": False}))
    refused = await silence(acme, card, "1.00")
    assert (refused["decline_reason"], refused["response_code"]) == ("programme_declined", "05")
    assert await activity(acme, card["programme_id"]) == []


async def test_refunds_and_verifications_skip_the_programme(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    refund = await silence(acme, card, "1.00", kind="refund")
    verification = await silence(acme, card, "0.00")
    assert (refund["response_code"], verification["response_code"]) == ("00", "85")
    assert await activity(acme, card["programme_id"]) == []


async def test_network_stand_in_is_not_in_the_report(acme: Caller) -> None:
    card = await delegated_card(acme, policy(), funds="5.00")
    record = await acme.spend(card, "10.00", scenario="force_stip_timeout")
    assert (record["state"], record["decision"]) == ("decided", "approved")
    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["held"], balance["available"]) == ("10.00", "-5.00")
    assert await activity(acme, card["programme_id"]) == []


async def test_stand_in_checks_the_declared_balance_instead_of_funds(acme: Caller) -> None:
    budget = policy(max_total_exposure=money("500.00"))
    # The timeout is long enough that even a slow machine starts all four calls before the first decision.
    card = await delegated_card(acme, budget, declared="120.00", timeout_ms=1_500)
    # All four pass the check of funds before the call to the programme, because none is held yet.
    records = await asyncio.gather(*(silence(acme, card, "40.00") for _ in range(4)))
    assert sorted(record["response_code"] for record in records) == ["00", "00", "00", "51"]
    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["held"], balance["available"]) == ("120.00", "-20.00")
    # Without available funds, the card declines before the call to the programme.
    assert (await silence(acme, card, "1.00"))["decline_reason"] == "insufficient_funds"
    rules = sorted(entry["rule"] for entry in await activity(acme, card["programme_id"]))
    assert rules == ["declared_balance_exceeded", *[APPROVING] * 3]


async def test_reversal_during_an_outage_returns_no_stand_in_budget(acme: Caller) -> None:
    card = await delegated_card(acme, policy(max_total_exposure=money("50.00")))
    record = await silence(acme, card, "40.00")
    child = await acme.post(f"/v1/simulated-spends/{record['simulation_id']}/reverse", status=202)
    await acme.simulation(child["simulation_id"])
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["held"] == "0.00"
    assert (await silence(acme, card, "10.01"))["response_code"] == "61"
    assert (await silence(acme, card, "10.00"))["response_code"] == "00"
    assert (await acme.get(f"/v1/cards/{card['id']}/declared-balance"))["consumed"] == money("50.00")


async def test_pages_of_the_report_give_each_row_once(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    other = await one_more_card(acme, {"id": card["programme_id"], "currency": "EUR"}, "100.00")
    await asyncio.gather(*(silence(acme, each, "1.00") for each in (card, other) * 3))
    whole = await activity(acme, card["programme_id"])
    assert len(whole) == 6
    assert {entry["card_id"] for entry in whole} == {card["id"], other["id"]}
    assert {entry["outage_id"] for entry in whole} == {whole[0]["outage_id"]}
    instants = [entry["decided_at"] for entry in whole]
    assert instants == sorted(instants, reverse=True)
    path = f"/v1/programs/{card['programme_id']}/stip-activity?{recent()}&limit=2"
    walked, page = [], await acme.get(path)
    while True:
        walked += page["data"]
        assert page["has_more"] == (page["next_cursor"] is not None)
        if not page["has_more"]:
            break
        page = await acme.get(f"{path}&starting_after={page['next_cursor']}")
    assert walked == whole
    # The window is half-open.
    first, last = instants[-1], instants[0]
    path = f"/v1/programs/{card['programme_id']}/stip-activity"
    within = (await acme.get(f"{path}?from={first}&to={last}"))["data"] if first != last else []
    assert within == [entry for entry in whole if first <= entry["decided_at"] < last]
    after = (await acme.get(f"{path}?from={last}&to=2099-01-01T00:00:00Z", 400))["errors"]
    assert [error["pointer"] for error in after] == ["/to"]


@pytest.mark.parametrize(
    ("query", "pointers"),
    [
        ("", ["/from", "/to"]),
        (FAR, ["/to"]),
        ("to=2026-01-01T00:00:00Z", ["/from"]),
        (f"{FAR}&to=yesterday", ["/to"]),
        (f"{FAR}&to=2026-01-01", ["/to"]),
        (f"{FAR}&to=2026-01-02T00:00:00", ["/to"]),
        (f"{FAR}&to=2026-01-01T00:00:00Z", ["/to"]),
        (f"{FAR}&to=2025-12-31T00:00:00Z", ["/to"]),
        (f"{FAR}&to=2026-04-01T00:00:00.001Z", ["/to"]),
        (f"{FAR}&to=2026-01-02T00:00:00Z&limit=0", ["/limit"]),
        (f"{FAR}&to=2026-01-02T00:00:00Z&rule=x", ["/rule"]),
        (f"{FAR}&to=2026-01-02T00:00:00Z&starting_after=x", ["/starting_after"]),
    ],
)
async def test_invalid_window_is_refused(acme: Caller, query: str, pointers: list[str]) -> None:
    # The window is validated before the programme is looked up.
    for id_ in ((await acme.programme())["id"], new_id()):
        refused = await acme.get(f"/v1/programs/{id_}/stip-activity?{query}", 400)
        assert refused["type"] == "/problems/validation-failed"
        assert [error["pointer"] for error in refused["errors"]] == pointers


async def test_window_of_ninety_days_is_accepted(acme: Caller) -> None:
    programme = await acme.programme()
    for to in ("2026-04-01T00:00:00Z", "2026-04-01T02:00:00%2B02:00", "2026-01-01T00:00:00.001Z"):
        page = await acme.get(f"/v1/programs/{programme['id']}/stip-activity?{FAR}&to={to}")
        assert page == {"data": [], "has_more": False, "next_cursor": None, "unattributed_count": 0}


async def test_programmes_and_cursors_of_other_tenants_are_not_found(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await delegated_card(acme, policy())
    await silence(acme, card, "1.00")
    [entry] = await activity(acme, card["programme_id"])
    rival, live = await running.caller(f"{tenant}-rival"), await running.caller(tenant, mode="live")
    for caller in (rival, live):
        await caller.get(f"/v1/programs/{card['programme_id']}/stip-activity?{recent()}", 404)
        path = f"/v1/programs/{(await caller.programme())['id']}/stip-activity?{recent()}"
        for cursor in (entry["id"], new_id()):
            refused = await caller.get(f"{path}&starting_after={cursor}", 400)
            assert refused["type"] == "/problems/invalid-cursor"
    another = f"/v1/programs/{(await acme.programme())['id']}/stip-activity?{recent()}"
    await acme.get(f"{another}&starting_after={entry['id']}", 400)


async def test_policy_is_in_force_once_its_request_is_answered(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    for mode, code in (("decline_all", "05"), ("approve_within_limits", "00")) * 2:
        await put_policy(acme, card["programme_id"], policy(mode=mode))
        assert (await silence(acme, card, "1.00"))["response_code"] == code


async def test_api_description_lists_the_omissions_of_the_report(acme: Caller) -> None:
    document = (await acme.http.get("/docs/openapi.json")).json()
    described = document["paths"]["/v1/programs/{id}/stip-activity"]["get"]["description"]
    for omitted in ("before the card was resolved", "by the network", "never committed"):
        assert omitted in described
