"""Tenants and modes are isolated: foreign ids get the same responses as unknown ids (guarantee G17)."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ids import new_id
from api.access.permissions import PERMISSIONS
from api.app import operations
from engine.scopes import SCOPES
from tests.support.api.authorization_rules import rule_of
from tests.support.api.delegation import activity, delegated_card, policy, recent
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, submit
from tests.support.api.stack import Installation

SCOPES_OF_OPERATIONS = sorted({permission.scope for permission in PERMISSIONS.values()})


async def resources(acme: Caller) -> dict[str, str]:
    """Create one object of each kind; returns the ids by kind."""
    card = await acme.funded_card()
    (transfer,) = (await acme.get("/v1/transfers"))["data"]
    (entry, _) = (await acme.get(f"/v1/ledger-entries?transfer_id={transfer['id']}"))["data"]
    spend = await acme.spend(card, "1.00")
    event = (await acme.get("/v1/events?limit=1"))["data"][0]
    endpoint = await acme.endpoint()
    to = {"endpoint_id": endpoint["id"]}
    delegated = await delegated_card(acme, policy())
    await acme.spend(delegated, "1.00", scenario="delegated_timeout")
    stand_in = (await activity(acme, delegated["programme_id"]))[0]
    redelivered = await acme.post(f"/v1/events/{event['id']}/redeliver", to, 202)
    checked = {"cardholder_id": card["cardholder_id"], "flow_key": "full"}
    check = await acme.post("/v1/kyc/checks", checked)
    reviewed = await acme.post("/v1/kyc/checks", checked | {"flow_key": "basic"})
    await submit(acme, reviewed, BASIC | {"family_name": "REVIEW"})
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    export = await acme.post("/v1/exports", {"kind": "transactions", **window}, 202)
    rule = await acme.post("/v1/authorization-rules", rule_of("card", card["id"]))
    change = {"controls": {"remove": ["mcc_deny"]}}
    scope = {"type": "card", "id": card["id"]}
    backtest = await acme.post("/v1/backtests", {"scope": scope, **window, "change": change}, 202)
    return {
        "backtests": backtest["id"],
        "programs": card["programme_id"],
        "card-products": card["card_product_id"],
        "cardholders": card["cardholder_id"],
        "cards": card["id"],
        "accounts": card["funding_account_id"],
        "transfers": transfer["id"],
        "ledger-entries": entry["id"],
        "transactions": spend["transaction_id"],
        "simulated-spends": spend["simulation_id"],
        "events": event["id"],
        "webhook-endpoints": endpoint["id"],
        "deliveries": redelivered["delivery_id"],
        "delegated-programs": delegated["programme_id"],
        "stand-ins": stand_in["id"],
        "outages": stand_in["outage_id"],
        "kyc-checks": check["id"],
        "kyc-reviews": reviewed["id"],
        "exports": export["id"],
        "authorization-rules": rule["id"],
    }


def requests_for(ids: dict[str, str], own: dict[str, str]) -> list[tuple[str, str, Any]]:
    """Every operation that takes an id: the id under test from ``ids``, other ids from ``own``."""
    product = {"name": "P", "network": "visa", "currency": "EUR", "form_factor": "virtual", "iin": "400000"}
    person = {"given_name": "A", "family_name": "B", "email": "a@b.example"}
    money = {"amount": "1.00", "currency": "EUR"}
    spend = {"amount": money, "mcc": "5411", "merchant_name": "M", "channel": "pos"}
    card = {"card_product_id": own["card-products"], "cardholder_id": own["cardholders"]}
    return [
        ("GET", f"/v1/programs/{ids['programs']}", None),
        ("PATCH", f"/v1/programs/{ids['programs']}", {"name": "Mine"}),
        ("GET", f"/v1/programs/{ids['programs']}/stip-policy", None),
        ("PUT", f"/v1/programs/{ids['programs']}/stip-policy", {"mode": "decline_all"}),
        ("GET", f"/v1/programs/{ids['delegated-programs']}/stip-activity?{recent()}", None),
        ("GET", f"/v1/programs/{ids['delegated-programs']}/outages", None),
        ("POST", "/v1/kyc/checks", {"cardholder_id": ids["cardholders"], "flow_key": "basic"}),
        ("GET", f"/v1/kyc/checks/{ids['kyc-checks']}", None),
        ("POST", f"/v1/kyc/checks/{ids['kyc-checks']}/submissions", {"given_name": "Mine"}),
        ("POST", f"/v1/kyc/checks/{ids['kyc-checks']}/submissions", {"document_type": "passport"}),
        ("POST", f"/v1/kyc/checks/{ids['kyc-checks']}/capture-sessions", {"kind": "flow"}),
        ("POST", f"/v1/kyc/checks/{ids['kyc-reviews']}/review", {"outcome": "passed"}),
        ("GET", f"/v1/card-products/{ids['card-products']}", None),
        ("PATCH", f"/v1/card-products/{ids['card-products']}", {"external_ref": "Mine"}),
        ("POST", f"/v1/card-products/{ids['card-products']}/retire", None),
        ("GET", f"/v1/cardholders/{ids['cardholders']}", None),
        ("PATCH", f"/v1/cardholders/{ids['cardholders']}", {"given_name": "Mine"}),
        ("PATCH", f"/v1/cardholders/{ids['cardholders']}", {"status": "blocked"}),
        ("GET", f"/v1/cards/{ids['cards']}", None),
        ("POST", f"/v1/cards/{ids['cards']}/cvv2", None),
        ("PUT", f"/v1/cards/{ids['cards']}/declared-balance", {"balance": money}),
        ("GET", f"/v1/cards/{ids['cards']}/declared-balance", None),
        ("PATCH", f"/v1/cards/{ids['cards']}", {"state": "suspended"}),
        ("PATCH", f"/v1/cards/{ids['cards']}", {"controls": []}),
        ("PATCH", f"/v1/cards/{ids['cards']}", {"metadata": {"a": "b"}}),
        ("PATCH", f"/v1/transactions/{ids['transactions']}", {"metadata": {"a": "b"}}),
        ("GET", f"/v1/exports/{ids['exports']}", None),
        ("POST", "/v1/authorization-rules", rule_of("programme", ids["programs"])),
        ("POST", "/v1/authorization-rules", rule_of("card_product", ids["card-products"])),
        ("POST", "/v1/authorization-rules", rule_of("card", ids["cards"])),
        ("GET", f"/v1/authorization-rules/{ids['authorization-rules']}", None),
        ("GET", f"/v1/authorization-rules/{ids['authorization-rules']}/versions", None),
        ("GET", f"/v1/authorization-rules/{ids['authorization-rules']}/report?{recent()}", None),
        ("PATCH", f"/v1/authorization-rules/{ids['authorization-rules']}", {"name": "Mine"}),
        ("POST", f"/v1/authorization-rules/{ids['authorization-rules']}/shadow", None),
        ("POST", f"/v1/authorization-rules/{ids['authorization-rules']}/activate", None),
        ("POST", f"/v1/authorization-rules/{ids['authorization-rules']}/retire", None),
        ("GET", f"/v1/backtests/{ids['backtests']}", None),
        ("GET", f"/v1/backtests/{ids['backtests']}/flips", None),
        ("GET", f"/v1/backtests/{ids['backtests']}/flips.csv", None),
        *(("POST", "/v1/backtests", backtest_of(*scope)) for scope in scopes_of(ids)),
        ("GET", f"/v1/settlement-reports?date=2026-01-01&programme_id={ids['programs']}", None),
        ("GET", f"/v1/cards/{ids['cards']}/balance", None),
        ("POST", f"/v1/cards/{ids['cards']}/evaluate", spend | {"merchant_name": "M"}),
        ("GET", f"/v1/cards/{ids['cards']}/headroom?mcc=5411&channel=pos", None),
        ("POST", f"/v1/cards/{ids['cards']}/reveal-sessions", None),
        ("GET", f"/v1/transactions/{ids['transactions']}", None),
        ("POST", f"/v1/transactions/{ids['transactions']}/replay", None),
        ("GET", f"/v1/simulated-spends/{ids['simulated-spends']}", None),
        ("POST", f"/v1/simulated-spends/{ids['simulated-spends']}/increment", {"raise_by_amount": money}),
        ("POST", f"/v1/simulated-spends/{ids['simulated-spends']}/reverse", None),
        ("POST", f"/v1/simulated-spends/{ids['simulated-spends']}/clear", {"amount": money}),
        ("POST", f"/v1/simulated-spends/{ids['simulated-spends']}/expire", None),
        ("GET", f"/v1/events/{ids['events']}", None),
        ("POST", f"/v1/events/{ids['events']}/redeliver", {"endpoint_id": own["webhook-endpoints"]}),
        ("POST", f"/v1/events/{own['events']}/redeliver", {"endpoint_id": ids["webhook-endpoints"]}),
        ("GET", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}", None),
        ("GET", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}/deliveries", None),
        ("PATCH", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}", {"event_types": ["*"]}),
        ("PATCH", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}", {"url": "https://mine.example.com/"}),
        ("POST", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}/rotate-secret", None),
        ("POST", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}/test", None),
        ("POST", "/v1/card-products", product | {"programme_id": ids["programs"]}),
        ("POST", "/v1/cardholders", person | {"programme_id": ids["programs"]}),
        ("POST", "/v1/cards", card | {"card_product_id": ids["card-products"]}),
        ("POST", "/v1/cards", card | {"cardholder_id": ids["cardholders"]}),
        ("POST", "/v1/cards", card | {"funding_account_id": ids["accounts"]}),
        ("GET", f"/v1/accounts/{ids['accounts']}", None),
        (
            "POST",
            "/v1/transfers",
            {"account_id": ids["accounts"], "amount": money, "direction": "credit", "kind": "load"},
        ),
        ("GET", f"/v1/transfers/{ids['transfers']}", None),
        ("POST", f"/v1/transfers/{ids['transfers']}/reverse", {"allow_negative": True}),
        ("POST", "/v1/simulated-loads", {"card_id": ids["cards"], "amount": money}),
        ("POST", "/v1/simulated-spends", spend | {"card_id": ids["cards"]}),
        (
            "POST",
            "/v1/simulated-clearings",
            {"card_id": ids["cards"], "amount": money, "mcc": "5411", "merchant_name": "M"},
        ),
        ("POST", f"/v1/cards/{ids['cards']}/replace", {"reason": "lost"}),
    ]


def deletions_for(ids: dict[str, str]) -> list[tuple[str, str, Any]]:
    """Every operation that deletes an object; sent last, because later requests would return 404."""
    return [
        ("DELETE", f"/v1/webhook-endpoints/{ids['webhook-endpoints']}", None),
        ("DELETE", f"/v1/backtests/{ids['backtests']}", None),
    ]


def scopes_of(ids: dict[str, str]) -> list[tuple[str, str]]:
    """The scopes of back-tests."""
    kinds = (("programme", "programs"), ("card_product", "card-products"), ("card", "cards"))
    return [(type_, ids[name]) for type_, name in kinds]


def backtest_of(type_: str, id_: str) -> dict[str, Any]:
    """A back-test of a scope."""
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    change = {"controls": {"remove": ["mcc_deny"]}}
    return {"scope": {"type": type_, "id": id_}, **window, "change": change}


def lists_for(ids: dict[str, str]) -> list[str]:
    """Every list with a filter by id."""
    return [
        f"/v1/card-products?programme_id={ids['programs']}",
        f"/v1/cardholders?programme_id={ids['programs']}",
        f"/v1/cards?programme_id={ids['programs']}",
        f"/v1/cards?cardholder_id={ids['cardholders']}",
        f"/v1/cards?ids={ids['cards']}",
        f"/v1/kyc/checks?cardholder_id={ids['cardholders']}",
        f"/v1/transactions?card_id={ids['cards']}",
        f"/v1/transactions?cardholder_id={ids['cardholders']}",
        f"/v1/transactions?programme_id={ids['programs']}",
        f"/v1/transactions?programme_id={ids['programs']}&mcc=5411",
        f"/v1/simulated-spends?card_id={ids['cards']}",
        f"/v1/accounts?programme_id={ids['programs']}",
        f"/v1/transfers?account_id={ids['accounts']}",
        f"/v1/transfers?programme_id={ids['programs']}",
        f"/v1/ledger-entries?account_id={ids['accounts']}",
        f"/v1/ledger-entries?authorization_id={ids['transactions']}",
        f"/v1/ledger-entries?transfer_id={ids['transfers']}",
        f"/v1/authorization-rules?scope_id={ids['cards']}",
        f"/v1/authorization-rules?scope_type=card&scope_id={ids['cards']}",
    ]


def cursors_for(ids: dict[str, str], own: dict[str, str]) -> list[str]:
    """Every list with a cursor."""
    lists = (
        "programs",
        "card-products",
        "cardholders",
        "cards",
        "accounts",
        "transfers",
        "transactions",
        "events",
        "webhook-endpoints",
        "simulated-spends",
        "exports",
        "authorization-rules",
        "backtests",
    )
    return [
        *(f"/v1/{name}?starting_after={ids[name]}" for name in lists),
        f"/v1/ledger-entries?account_id={own['accounts']}&starting_after={ids['ledger-entries']}",
        f"/v1/webhook-endpoints/{own['webhook-endpoints']}/deliveries?starting_after={ids['deliveries']}",
        f"/v1/webhook-endpoints/{own['webhook-endpoints']}/deliveries?event_id={ids['events']}",
        f"/v1/programs/{own['delegated-programs']}/stip-activity?{recent()}&starting_after={ids['stand-ins']}",
        f"/v1/programs/{own['delegated-programs']}/outages?starting_after={ids['outages']}",
    ]


async def answers(caller: Caller, ids: dict[str, str], own: dict[str, str]) -> list[tuple[str, Any]]:
    """Status and body of each response to ``caller``, without the ``instance`` of the request."""
    found: list[tuple[str, Any]] = []
    gets = [("GET", path, None) for path in lists_for(ids) + cursors_for(ids, own)]
    for method, path, body in requests_for(ids, own) + gets + deletions_for(ids):
        response = await caller.send(method, path, body)
        is_json = "json" in response.headers.get("content-type", "")
        shown = (response.json() if is_json else {}) | {"instance": ""}
        found.append(
            (
                f"{method} {path.split('?')[0].replace(next(iter(ids.values())), '')}",
                (response.status_code, shown),
            )
        )
    return found


def random_ids(like: dict[str, str]) -> dict[str, str]:
    return {name: new_id() for name in like}


async def test_foreign_ids_get_the_same_responses_as_random_ids(running: Installation, tenant: str) -> None:
    acme = await running.caller(tenant, scopes=SCOPES)
    own = await resources(acme)
    rival = await running.caller(f"{tenant}-rival")
    foreign = await resources(rival)
    for with_foreign, with_random in zip(
        await answers(acme, foreign, own), await answers(acme, random_ids(own), own), strict=True
    ):
        assert with_foreign[1] == with_random[1], with_foreign[0]
        assert with_foreign[1][0] in {200, 400, 404}
        if with_foreign[1][0] == 200:
            assert with_foreign[1][1]["data"] == []
    # The rival's objects are unchanged.
    assert (await rival.get(f"/v1/cards/{foreign['cards']}"))["state"] == "active"
    assert (await rival.get(f"/v1/card-products/{foreign['card-products']}"))["status"] == "active"
    assert (await rival.get(f"/v1/programs/{foreign['programs']}"))["version"] == 1
    assert (await rival.get(f"/v1/cards/{foreign['cards']}/balance"))["posted"] == "100.00"
    endpoint = await rival.get(f"/v1/webhook-endpoints/{foreign['webhook-endpoints']}")
    assert endpoint["event_types"] == ["card.created"]
    rule = await rival.get(f"/v1/authorization-rules/{foreign['authorization-rules']}")
    assert (rule["name"], rule["state"]) == ("No gambling", "draft")
    assert endpoint["previous_secret_expires_at"] is None


async def test_modes_of_one_tenant_are_isolated(running: Installation, acme: Caller) -> None:
    live = await running.caller(acme.credentials.name, mode="live", scopes=SCOPES)
    # The test sends more requests than the rate limit of live mode permits.
    live.http = running.variant(rate_live_per_second=100_000)
    in_test = await resources(acme)
    programme = await live.programme()
    own = {name: new_id() for name in in_test} | {"programs": programme["id"]}
    for with_test, with_random in zip(
        await answers(live, in_test, own), await answers(live, random_ids(own), own), strict=True
    ):
        assert with_test[1] == with_random[1], with_test[0]
        assert with_test[1][0] in {200, 400, 403, 404}
    assert [row["id"] for row in (await live.get("/v1/programs"))["data"]] == [programme["id"]]
    assert programme["id"] not in {row["id"] for row in (await acme.get("/v1/programs"))["data"]}
    assert (await acme.send("GET", f"/v1/programs/{programme['id']}")).status_code == 404


async def test_same_requests_succeed_with_own_ids(acme: Caller) -> None:
    """Without this test, requests that are refused for another reason would pass the comparisons."""
    own = await resources(acme)
    refused = {name for name, (status, _) in await answers(acme, own, own) if status >= 400}
    # Earlier requests retire the card product and suspend the card, so some later POSTs are refused.
    assert {name.split(" ")[0] for name in refused} <= {"POST"}


@pytest.mark.parametrize("kept", SCOPES_OF_OPERATIONS)
async def test_each_scope_permits_only_its_operations(running: Installation, tenant: str, kept: str) -> None:
    caller = await running.caller(tenant, role="owner", scopes=(kept,))
    for operation in operations():
        path = operation.path.replace("{id}", new_id())
        status = (
            await caller.send(operation.method, path, {} if operation.method != "GET" else None)
        ).status_code
        assert (status == 403) == (operation.permission.scope != kept), operation.name


async def test_simulations_are_refused_in_live_mode(running: Installation, tenant: str) -> None:
    live = await running.caller(tenant, mode="live")
    for operation in operations():
        if "/simulated-" in operation.path:
            path = operation.path.replace("{id}", new_id())
            response = await live.send(operation.method, path, {} if operation.method != "GET" else None)
            assert response.status_code == 403
            assert response.json()["type"] == "/problems/test-mode-only"


async def test_permissions_are_checked_before_the_body_and_the_key(
    running: Installation, tenant: str
) -> None:
    reader = await running.caller(tenant, scopes=("cards:read",))
    for path in ("/v1/cards", "/v1/programs"):
        assert (await reader.send("POST", path, raw=b"{", key=None)).status_code == 403
    reader.token = "unknown"
    assert (await reader.send("POST", "/v1/cards", raw=b"{", key=None)).status_code == 401


async def test_permissions_cover_exactly_the_operations(running: Installation) -> None:
    assert {operation.name for operation in operations()} == set(PERMISSIONS)
