"""Declared balances: for administrators only, and absent from the published description."""

from __future__ import annotations

from typing import Any

import pytest

from actors.ids import new_id
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def money(amount: str, currency: str = "EUR") -> dict[str, str]:
    return {"amount": amount, "currency": currency}


async def put(caller: Caller, card: Any, body: Any, status: int = 200, **options: Any) -> Any:
    response = await caller.send("PUT", f"/v1/cards/{card['id']}/declared-balance", body, **options)
    assert response.status_code == status, response.text
    return response.json()


async def test_declared_balance_is_returned(acme: Caller) -> None:
    card = await acme.funded_card()
    path = f"/v1/cards/{card['id']}/declared-balance"
    assert (await acme.get(path, 404))["detail"] == "No balance has been declared for the card."
    for amount in ("25.00", "0.00"):
        declared = await put(acme, card, {"balance": money(amount)})
        assert declared == {
            "card_id": card["id"],
            "balance": money(amount),
            "consumed": money("0.00"),
            "remaining": money(amount),
            "declared_at": declared["declared_at"],
        }
        assert await acme.get(path) == declared


async def test_idempotency_key_declares_a_balance_once(acme: Caller) -> None:
    card = await acme.funded_card()
    first = await put(acme, card, {"balance": money("25.00")}, key="one")
    newer = await put(acme, card, {"balance": money("5.00")}, key="two")
    assert await put(acme, card, {"balance": money("25.00")}, key="one") == first
    assert await acme.get(f"/v1/cards/{card['id']}/declared-balance") == newer
    await put(acme, card, {"balance": money("26.00")}, 409, key="one")
    await put(acme, card, {"balance": money("25.00")}, 400, key=None)


@pytest.mark.parametrize(
    "body",
    [
        {},
        None,
        {"balance": money("-1")},
        {"balance": "1.00"},
        {"balance": money("1.00"), "consumed": money("0.00")},
        {"balance": money("1.00", "USD")},
    ],
)
async def test_invalid_balance_is_refused(acme: Caller, body: Any) -> None:
    card = await acme.funded_card()
    await put(acme, card, body, 400)
    await acme.get(f"/v1/cards/{card['id']}/declared-balance", 404)


async def test_only_administrators_of_the_tenant_use_declared_balances(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    await put(acme, card, {"balance": money("25.00")})
    user, rival = await running.caller(tenant, role="user"), await running.caller(f"{tenant}-rival")
    for caller, id_, slug in (
        (user, card["id"], "role-not-allowed"),
        (rival, card["id"], "not-found"),
        (acme, new_id(), "not-found"),
    ):
        status = 403 if slug == "role-not-allowed" else 404
        refused = await put(caller, {"id": id_}, {"balance": money("1.00")}, status)
        assert refused["type"] == f"/problems/{slug}"
        assert (await caller.get(f"/v1/cards/{id_}/declared-balance", status))["type"] == refused["type"]


async def test_published_description_omits_declaring_a_balance(acme: Caller) -> None:
    document = (await acme.http.get("/docs/openapi.json")).text
    # The description mentions declared balances and the act of the audit log, but not the operation.
    assert "declared-balance" not in document
    assert '"operationId":"declare_balance"' not in document
    assert '"operationId":"update_card"' in document
