"""Tenants and modes are isolated on every published operation with a resource id."""

from __future__ import annotations

from typing import Any

import pytest

from actors.egress.receivers import permitted
from actors.ids import new_id
from tests.support.api.authorization_rules import rule_of
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack

OTHERS = [("rival", "test"), ("demo", "live")]
# A valid body for the operation, by path.
CHANGES = {
    "/v1/users/{id}": {"role": "admin"},
    "/v1/cards/{id}": {"state": "suspended"},
    "/v1/programs/{id}": {"name": "Taken over"},
    "/v1/cardholders/{id}": {"given_name": "Eve"},
    "/v1/webhook-endpoints/{id}": {"description": "Taken over"},
    "/v1/card-products/{id}": {"external_ref": "taken over"},
    "/v1/transactions/{id}": {"metadata": {"taken": "over"}},
    "/v1/authorization-rules/{id}": {"name": "Taken over"},
}
# Required query parameters, by path.
_DAY = "?from=2026-11-01T00:00:00Z&to=2026-11-02T00:00:00Z"
QUERIES = {
    "/v1/programs/{id}/stip-activity": _DAY,
    "/v1/authorization-rules/{id}/report": _DAY,
    "/v1/cards/{id}/headroom": "?mcc=5411&channel=pos",
}
LISTS = [
    "/v1/programs",
    "/v1/card-products",
    "/v1/cardholders",
    "/v1/cards",
    "/v1/kyc/checks",
    "/v1/webhook-endpoints",
    "/v1/transactions",
    "/v1/events",
    "/v1/accounts",
    "/v1/transfers",
    "/v1/exports",
    "/v1/backtests",
    "/v1/authorization-rules",
    "/v1/clients",
]


async def resources(stack: Stack, demo: Caller) -> dict[str, str]:
    """An id of each kind of resource, by the first part of its path."""
    card = await demo.funded_card()
    spend = await demo.spend(card, "1.00")
    checked = {"cardholder_id": card["cardholder_id"], "flow_key": "basic"}
    with permitted(stack.installation.var_dir, "127.0.0.1", 1025):
        endpoint = await demo.endpoint(url="https://127.0.0.1:1025/unused")
    account_id = (await demo.get(f"/v1/cards/{card['id']}/balance"))["account_id"]
    amount = {"amount": "1.00", "currency": card["currency"]}
    movement = {"account_id": account_id, "direction": "credit", "amount": amount, "kind": "load"}
    transfer = await demo.post("/v1/transfers", movement)
    day = {"from": "2026-11-01T00:00:00Z", "to": "2026-11-02T00:00:00Z"}
    export = await demo.post("/v1/exports", {"kind": "transactions", "format": "csv"} | day, 202)
    scope = {"type": "card", "id": card["id"]}
    change = {"controls": {"remove": ["mcc_deny"]}}
    backtest = await demo.post("/v1/backtests", {"scope": scope, "change": change} | day, 202)
    rule = await demo.post("/v1/authorization-rules", rule_of("card", card["id"]))
    async with stack.caller(role="owner") as owner:
        client = (await owner.get("/v1/clients"))["data"][0]
        person = {"email": f"{new_id()}@example.com", "name": "Ada", "role": "user", "modes": ["test"]}
        user = await owner.post("/v1/users", person)
    return {
        "programs": card["programme_id"],
        "card-products": card["card_product_id"],
        "cardholders": card["cardholder_id"],
        "cards": card["id"],
        "transactions": spend["transaction_id"],
        "simulated-spends": spend["simulation_id"],
        "webhook-endpoints": endpoint["id"],
        "kyc": (await demo.post("/v1/kyc/checks", checked))["id"],
        "events": (await demo.get("/v1/events?limit=1"))["data"][0]["id"],
        "accounts": account_id,
        "transfers": transfer["id"],
        "exports": export["id"],
        "backtests": backtest["id"],
        "authorization-rules": rule["id"],
        "clients": client["id"],
        "users": user["id"],
    }


async def answer(caller: Caller, method: str, path: str) -> tuple[int, dict[str, Any]]:
    """Status and problem body of a request, without the member ``instance``, which is unique."""
    template = path.replace(path.split("/")[3], "{id}")
    response = await caller.send(method, path, CHANGES.get(template) if method == "PATCH" else None)
    body = response.json()
    body.pop("instance", None)
    return response.status_code, body


@pytest.mark.parametrize(("name", "mode"), OTHERS, ids=lambda value: value)
async def test_foreign_ids_answer_like_unknown_ids(stack: Stack, demo: Caller, name: str, mode: str) -> None:
    ids = await resources(stack, demo)
    description = await demo.get("/docs/openapi.json")
    named = {path: methods for path, methods in description["paths"].items() if "{id}" in path}
    assert {path.split("/")[2] for path in named} == ids.keys()
    async with stack.caller(name, mode=mode, role="owner") as other:
        for path, methods in named.items():
            resource = ids[path.split("/")[2]]
            for method in {"get", "patch"} & methods.keys():
                target = path + QUERIES.get(path, "")
                foreign = await answer(other, method.upper(), target.format(id=resource))
                unknown = await answer(other, method.upper(), target.format(id=new_id()))
                assert foreign == unknown, path
                simulated = mode == "live" and path.startswith("/v1/simulated-")
                assert foreign[0] == (403 if simulated else 404), path
        for path in LISTS:
            listed = await other.get(f"{path}?limit=100")
            assert not {each["id"] for each in listed["data"]} & set(ids.values())
        assert (await other.get(f"/v1/cards?ids={ids['cards']}"))["data"] == []
        assert (await other.send("GET", f"/v1/cards?starting_after={ids['cards']}")).status_code == 400
    card = await demo.get(f"/v1/cards/{ids['cards']}")
    assert card["state"] == "active"
