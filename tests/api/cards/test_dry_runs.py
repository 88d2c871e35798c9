"""Dry runs and headroom: equal to the spend that follows, without a trace in the database."""

from __future__ import annotations

import asyncio
from typing import Any

import asyncpg
import msgspec
import pytest

from actors.ids import new_id
from engine.ids import key_of, shard_of
from engine.replies import Done
from engine.rules.model import Condition
from tests.support.api.delegation import declare, delegated_card, policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.engine.rules import condition, create_rule, velocity

SHOP = {"mcc": "5411", "channel": "pos"}
THREEDS = "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e"
CONTROLS = [
    {"kind": "mcc_deny", "values": ["7995"]},
    {"kind": "channel_deny", "values": ["atm"]},
    {"kind": "per_txn_cap", "amount": "60.00"},
    {"kind": "per_day_cap", "count": 14},
    {"kind": "per_day_amount_cap", "amount": "150.00"},
]


def money(amount: str, currency: str = "EUR") -> dict[str, str]:
    return {"amount": amount, "currency": currency}


def purchase(amount: str = "1.00", currency: str = "EUR", **fields: Any) -> dict[str, Any]:
    return {"amount": money(amount, currency), "merchant_name": "Corner Shop"} | SHOP | fields


async def evaluate(caller: Caller, card: Any, body: Any, status: int = 200) -> Any:
    return await caller.post(f"/v1/cards/{card['id']}/evaluate", body, status, key=None)


async def headroom(caller: Caller, card: Any, query: str = "mcc=5411&channel=pos", status: int = 200) -> Any:
    return await caller.get(f"/v1/cards/{card['id']}/headroom?{query}", status)


def steps(trace: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A trace without the EMV data, which a dry run does not have."""
    return [step | {"observed": None} if step["rule"] == "chip_data" else step for step in trace]


async def contents(database_url: str) -> dict[str, Any]:
    """A digest of all rows of each table, except the reports that edges write every few seconds."""
    connection = await asyncpg.connect(database_url)
    try:
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        names = [name for (name,) in tables if name != "link_reports"]
        return {
            name: await connection.fetchval(
                f"SELECT md5(coalesce(string_agg(t::text, ';' ORDER BY t::text), '')) FROM {name} t"
            )
            for name in names
        }
    finally:
        await connection.close()


async def settled(database_url: str) -> dict[str, str]:
    """The contents once no earlier work changes them: states of simulations are written after the answer."""
    found = await contents(database_url)
    while True:
        await asyncio.sleep(0.1)
        before, found = found, await contents(database_url)
        if found == before:
            return found


# --- equal to the spend that follows ---

CASES: list[dict[str, Any]] = [
    purchase("10.00"),
    purchase("60.00"),
    purchase("60.01"),
    purchase("5.00", entry_mode="chip"),
    purchase("5.00", entry_mode="contactless"),
    purchase("5.00", entry_mode="magstripe"),
    purchase("5.00", entry_mode="manual"),
    purchase("1.00", mcc="7995"),
    purchase("1.00", channel="atm", entry_mode="chip"),
    purchase("1.00", channel="ecommerce"),
    purchase("1.00", channel="moto", mcc="6051", merchant_country="US"),
    purchase("1.00", channel="moto", mcc="6051", merchant_country="US", entry_mode="magstripe"),
    purchase("1.00", channel="ecommerce", mit=True),
    purchase("0"),
    purchase("3.00", kind="refund"),
    purchase("3.00", kind="refund", entry_mode="chip"),
    purchase("1.00", "USD"),
    purchase("6.13", merchant_amount=money("1000", "JPY"), merchant_country="US"),
    purchase("6.13", merchant_amount=money("2.500", "KWD"), scenario="partial_approval"),
    purchase("1.00", merchant_name="Café Größe, with a name of more than forty characters"),
    purchase("1.00", channel="ecommerce", cvv2="WRONG"),
    purchase("1.00", channel="ecommerce", cvv2="RIGHT", scenario="cvv2_presented"),
    purchase("1.00", channel="ecommerce", auth_value="forged", threeds_ref=THREEDS),
    purchase("1.00", channel="ecommerce", auth_value="AAABBEg0VhI0VniQEjRWAAAAAAA=", threeds_ref=THREEDS),
    purchase("55.00", approved_amount=money("20.00")),
    purchase("60.00", scenario="partial_approval"),
    purchase("60.00", scenario="partial_approval"),
    purchase("2.00"),
    purchase("2.00"),
    purchase("2.00"),
]


async def test_dry_run_equals_the_spend_that_follows(acme: Caller) -> None:
    """One card lives through all cases, so that counters, holds and failed checks add up."""
    card = await acme.funded_card("120.00", controls=CONTROLS)
    cvv2 = (await acme.post(f"/v1/cards/{card['id']}/cvv2", status=200))["cvv2"]
    values = {"RIGHT": cvv2, "WRONG": f"{(int(cvv2) + 1) % 1000:03d}"}
    reasons = set()
    for case in CASES:
        body = case | ({"cvv2": values[case["cvv2"]]} if "cvv2" in case else {})
        shown = await evaluate(acme, card, body)
        accepted = await acme.post("/v1/simulated-spends", body | {"card_id": card["id"]}, 202, key=None)
        made = await acme.simulation(accepted["simulation_id"])
        for name in ("decision", "decline_reason", "response_code"):
            assert shown[name] == made[name], (case, shown, made)
        if made["decision"] == "approved":
            assert shown["approved_amount"] == made["approved_amount"], case
        else:
            assert shown["approved_amount"] is None
        transaction = await acme.get(f"/v1/transactions/{made['transaction_id']}")
        assert steps(shown["trace"]) == steps(transaction["trace"]), case
        for name in ("risk", "decided_by"):
            assert shown[name] == transaction[name], case
        reasons.add(made["decline_reason"])
    assert len(reasons) >= 8, reasons


async def test_headroom_is_the_largest_spend(acme: Caller) -> None:
    card = await acme.funded_card("120.00", controls=CONTROLS)
    for rule in ("per_txn_cap", "per_txn_cap", "funds"):
        found = await headroom(acme, card)
        assert found["binding"]["rule"] == rule
        more = f"{float(found['max_amount']) + 0.01:.2f}"
        declined = await evaluate(acme, card, purchase(more))
        assert (declined["decision"], declined["trace"][-1]["rule"]) == ("declined", rule)
        assert declined["decline_reason"] == found["binding"]["decline_reason"]
        if found["max_amount"] == "0.00":
            break
        made = await acme.spend(card, found["max_amount"])
        assert made["decision"] == "approved"
    assert found["decline_reason"] == "insufficient_funds"
    denied = await headroom(acme, card, "mcc=7995&channel=pos")
    assert (denied["max_amount"], denied["decline_reason"]) == ("0.00", "mcc_not_allowed")


async def test_headroom_has_all_limits(acme: Caller) -> None:
    card = await acme.funded_card("120.00", controls=CONTROLS)
    await acme.spend(card, "15.00")
    found = await headroom(
        acme, card, "mcc=5411&channel=pos&entry_mode=chip&merchant_country=IE&merchant_id=S1"
    )
    resets = [limit.pop("resets_at") for limit in found["limits"]]
    assert resets[1] == resets[2] is not None
    assert (resets[0], resets[3]) == (None, None)
    assert [tuple(limit.values()) for limit in found["limits"]] == [
        ("per_txn_cap", "amount", "60.00", "0.00", "60.00"),
        ("per_day_cap", "count", "14", "1", "13"),
        ("per_day_amount_cap", "amount", "150.00", "15.00", "135.00"),
        ("funds", "amount", "120.00", "15.00", "105.00"),
    ]
    assert (found["max_amount"], found["currency"], found["decided_by"]) == ("60.00", "EUR", "platform")
    assert set(found["as_of"]) == {"card_seq", "programme_version", "at"}


# --- authorization rules ---


async def add_rule(running: Installation, card: Any, number: int, *when: Condition, **parts: Any) -> str:
    """An active rule of the card's programme; returns the name of its trace steps."""
    row = await running.services.pool.fetchrow(
        "SELECT tenant_id::text FROM cards WHERE id = $1::uuid", card["id"]
    )
    assert row is not None
    id_ = running.services.new_id(shard_of(card["programme_id"]))
    made = create_rule(number, *when, programme_id=card["programme_id"], id=id_, **parts)
    command = msgspec.structs.replace(made, id=id_, command_key=key_of(id_), tenant_id=row["tenant_id"])
    assert isinstance(await running.services.owners.submit(command), Done)
    return f"rule:{id_}@1"


async def test_rules_decide_dry_runs_as_they_decide_spends(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("120.00")
    count = await add_rule(running, card, 1, velocity("count", "PT10M", "gt", 3))
    monthly = await add_rule(running, card, 2, velocity("amount", "month", "gt", 5_000))
    await add_rule(running, card, 3, condition("merchant_id", "eq", "SHOP1"))
    await add_rule(running, card, 4, condition("amount", "gt", 2_000), action="require_authentication")
    found = await headroom(acme, card)
    assert (found["max_amount"], found["binding"]["rule"]) == ("50.00", monthly)
    assert {limit["rule"] for limit in found["limits"]} == {count, monthly, "funds"}
    assert (await headroom(acme, card, "mcc=5411&channel=ecommerce"))["max_amount"] == "20.00"
    blocked = await headroom(acme, card, "mcc=5411&channel=pos&merchant_id=SHOP1")
    assert (blocked["decline_reason"], blocked["binding"]["decline_detail"]) == ("rule_declined", "reason_3")
    shown = await evaluate(acme, card, purchase(merchant_id="SHOP1"))
    assert (shown["decline_reason"], shown["decline_detail"]) == ("rule_declined", "reason_3")
    reasons = []
    for amount, channel in (
        ("20.01", "ecommerce"),
        ("50.01", "pos"),
        ("10.00", "pos"),
        ("5.00", "pos"),
        ("5.00", "pos"),
    ):
        body = purchase(amount, channel=channel)
        shown = await evaluate(acme, card, body)
        made = await acme.spend(card, amount, channel=channel)
        assert (shown["decision"], shown["decline_reason"]) == (made["decision"], made["decline_reason"])
        transaction = await acme.get(f"/v1/transactions/{made['transaction_id']}")
        assert shown["trace"] == transaction["trace"]
        reasons.append(shown["decline_detail"])
    assert reasons == ["reason_4", "reason_2", None, None, None]
    spent = await headroom(acme, card)
    assert (spent["max_amount"], spent["binding"]["rule"], spent["binding"]["used"]) == ("0.00", count, "3")


# --- nothing changes ---


async def test_nothing_changes_in_the_database(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card("120.00", controls=CONTROLS)
    await acme.spend(card, "15.00")
    stand_in = await delegated_card(acme, policy())
    database_url = running.services.settings.database_dsn
    before = await settled(database_url)
    assert len(before) > 30
    figures = running.peers.host.host.counts.figures()
    for case in CASES:
        await evaluate(acme, card, case | ({"cvv2": "123"} if "cvv2" in case else {}))
    for body in (purchase(), purchase(stand_in=True), purchase(scenario="delegated_timeout")):
        await evaluate(acme, stand_in, body)
    await asyncio.gather(*(headroom(acme, each) for each in (card, stand_in) for _ in range(8)))
    await evaluate(acme, card, purchase("-1"), 400)
    assert await contents(database_url) == before
    after = running.peers.host.host.counts.figures()
    for name in ("stanchion_decisions", "stanchion_stand_ins", "stanchion_stand_in_exposure_minor"):
        assert after[name] == figures[name]


async def test_owner_moves_while_asked(running: Installation, tenant: str) -> None:
    """Cards are cold at the new owner; callers that ask during the move get their answers."""
    acme = await running.caller(tenant)
    card = await acme.funded_card("120.00")
    asked = [asyncio.create_task(headroom(acme, card)) for _ in range(20)]
    asked += [asyncio.create_task(evaluate(acme, card, purchase("120.00"))) for _ in range(20)]
    await running.replace_host()
    answers = await asyncio.gather(*asked)
    assert {each.get("max_amount") for each in answers} == {"120.00", None}
    assert {each.get("decision") for each in answers} == {"approved", None}


# --- delegated programmes and stand-in ---


async def test_delegated_programme_is_not_asked(acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    shown = await evaluate(acme, card, purchase("10.00"))
    assert (shown["decision"], shown["decided_by"], shown["response_code"]) == (
        "delegated",
        "programme",
        None,
    )
    assert shown["approved_amount"] == money("10.00")
    found = await headroom(acme, card)
    assert (found["max_amount"], found["decided_by"]) == ("100.00", "programme")
    declined = await evaluate(acme, card, purchase("100.01"))
    assert (declined["decision"], declined["decline_reason"]) == ("declined", "insufficient_funds")


@pytest.mark.parametrize("amount", ["20.00", "50.01"])
async def test_stand_in_equals_the_silent_spend_that_follows(acme: Caller, amount: str) -> None:
    card = await delegated_card(acme, policy())
    await declare(acme, card, "60.00")
    shown = await evaluate(acme, card, purchase(amount, stand_in=True))
    assert shown == await evaluate(acme, card, purchase(amount, scenario="delegated_timeout")) | {
        "as_of": shown["as_of"]
    }
    made = await acme.spend(card, amount, scenario="delegated_timeout")
    transaction = await acme.get(f"/v1/transactions/{made['transaction_id']}")
    assert (shown["decision"], shown["response_code"]) == (made["decision"], made["response_code"])
    assert shown["decided_by"] == transaction["decided_by"] == "stand_in"
    assert shown["trace"] == transaction["trace"]


# --- both modes, states, refusals ---


@pytest.mark.parametrize("state", ["unactivated", "suspended", "terminated", "lost", "stolen"])
async def test_inactive_card_declines(acme: Caller, state: str) -> None:
    card = await acme.funded_card(activate=state != "unactivated")
    if state != "unactivated":
        await acme.patch(f"/v1/cards/{card['id']}", {"state": state})
    shown, found = await evaluate(acme, card, purchase()), await headroom(acme, card)
    assert (shown["decision"], shown["decline_reason"]) == ("declined", f"card_{state}")
    assert (found["max_amount"], found["decline_reason"]) == ("0.00", f"card_{state}")


async def live_card(live: Caller) -> Any:
    programme = await live.programme()
    card = await live.card(await live.product(programme), await live.cardholder(programme))
    paid = {"account_id": card["funding_account_id"], "kind": "load", "direction": "credit"}
    await live.post("/v1/transfers", paid | {"amount": money("80.00")})
    return card


async def test_live_mode_takes_results_instead_of_secrets(running: Installation, tenant: str) -> None:
    live = await running.caller(tenant, mode="live")
    card = await live_card(live)
    assert (await headroom(live, card))["max_amount"] == "80.00"
    assert (await evaluate(live, card, purchase("80.00")))["decision"] == "approved"
    online = purchase(channel="ecommerce")
    secrets = {"cvv2": "123", "auth_value": "AAABBEg0VhI0VniQEjRWAAAAAAA=", "threeds_ref": THREEDS}
    refused = await evaluate(live, card, online | secrets, 400)
    assert {error["pointer"] for error in refused["errors"]} == {f"/{name}" for name in secrets}
    assert {error["code"] for error in refused["errors"]} == {"not_allowed"}
    for members, reason in (
        ({"cvv2_result": "match"}, None),
        ({"cvv2_result": "mismatch"}, "cvv2_mismatch"),
        ({"authentication_result": "valid"}, None),
        ({"authentication_result": "invalid"}, "authentication_failed"),
    ):
        assert (await evaluate(live, card, online | members))["decline_reason"] == reason


@pytest.mark.parametrize(
    ("body", "pointer", "code"),
    [
        ({}, "/amount", "missing"),
        (purchase("1.001"), "/amount/amount", "format"),
        (purchase("10000000000.00"), "/amount/amount", "range"),
        (purchase(approved_amount=money("10000000000.00")), "/approved_amount/amount", "range"),
        (purchase(merchant_amount=money("1000000000000", "JPY")), "/merchant_amount/amount", "range"),
        (purchase(merchant_id="sixteen characters"), "/merchant_id", "format"),
        (purchase(card_id=THREEDS), "/card_id", "not_allowed"),
        (purchase(stand_in="yes"), "/stand_in", "type"),
        (purchase(cvv2="123", cvv2_result="match"), "/cvv2_result", "not_allowed"),
        (
            purchase(threeds_ref=THREEDS, authentication_result="valid"),
            "/authentication_result",
            "not_allowed",
        ),
        (purchase(channel="post"), "/channel", "not_allowed"),
        (purchase(surprise=1), "/surprise", "unknown_field"),
    ],
)
async def test_invalid_body_is_refused_with_a_pointer(
    acme: Caller, body: Any, pointer: str, code: str
) -> None:
    card = await acme.funded_card()
    refused = await evaluate(acme, card, body, 400)
    assert (pointer, code) in {(error["pointer"], error["code"]) for error in refused["errors"]}


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("channel=pos", "/mcc"),
        ("mcc=5411", "/channel"),
        ("mcc=54&channel=pos", "/mcc"),
        ("mcc=5411&channel=post", "/channel"),
        ("mcc=5411&channel=pos&merchant_country=XX", "/merchant_country"),
        ("mcc=5411&channel=pos&amount=1.00", "/amount"),
    ],
)
async def test_invalid_query_is_refused_with_a_pointer(acme: Caller, query: str, pointer: str) -> None:
    card = await acme.funded_card()
    refused = await headroom(acme, card, query, 400)
    assert [error["pointer"] for error in refused["errors"]] == [pointer]


async def test_body_of_a_spend_is_taken_as_it_is(acme: Caller) -> None:
    card = await acme.funded_card()
    assert (await evaluate(acme, card, purchase(card_id=card["id"].upper())))["decision"] == "approved"


async def test_unknown_and_foreign_cards_are_not_found(running: Installation, tenant: str) -> None:
    acme, rival = await running.caller(tenant), await running.caller(f"{tenant}-rival")
    live = await running.caller(tenant, mode="live")
    card = await acme.funded_card()
    for caller, id_ in ((rival, card["id"]), (live, card["id"]), (acme, new_id()), (acme, "no-id")):
        assert (await evaluate(caller, {"id": id_}, purchase(), 404))["type"] == "/problems/not-found"
        assert (await headroom(caller, {"id": id_}, status=404))["type"] == "/problems/not-found"


async def test_scope_for_reading_cards_suffices(running: Installation, tenant: str, acme: Caller) -> None:
    card = await acme.funded_card()
    reader = await running.caller(acme.credentials.name, role="user", scopes=("cards:read",))
    other = await running.caller(acme.credentials.name, role="user", scopes=("cards:write",))
    assert (await evaluate(reader, card, purchase()))["decision"] == "approved"
    assert (await headroom(reader, card))["max_amount"] == "100.00"
    await evaluate(other, card, purchase(), 403)
    await headroom(other, card, status=403)
