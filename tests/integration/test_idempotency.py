"""Idempotency keys over HTTP: one effect, and the same bytes for each repetition."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack

PROGRAMME = {"name": "Everyday", "currency": "EUR"}


async def creation_bodies(demo: Caller) -> dict[str, dict[str, Any]]:
    """A body for every operation with a key that creates a resource."""
    programme = await demo.programme()
    product, holder = await demo.product(programme), await demo.cardholder(programme)
    card = await demo.card(product, holder)
    return {
        "/v1/programs": PROGRAMME,
        "/v1/card-products": {
            "programme_id": programme["id"],
            "name": "Virtual",
            "network": "visa",
            "currency": "EUR",
            "form_factor": "virtual",
            "iin": "400000",
        },
        "/v1/cardholders": {
            "programme_id": programme["id"],
            "given_name": "Ada",
            "family_name": "Byron",
            "email": "ada@example.com",
        },
        "/v1/cards": {"card_product_id": product["id"], "cardholder_id": holder["id"]},
        "/v1/simulated-loads": {"card_id": card["id"], "amount": {"amount": "5.00", "currency": "EUR"}},
    }


async def test_replay_has_the_same_bytes_and_another_body_conflicts(demo: Caller) -> None:
    for path, body in (await creation_bodies(demo)).items():
        key = str(uuid.uuid4())
        first = await demo.send("POST", path, body, key=key)
        assert (first.status_code, first.headers.get("idempotent-replayed")) == (201, None), first.text
        again = await demo.send("POST", path, dict(reversed(body.items())), key=key)
        assert (again.status_code, again.content) == (first.status_code, first.content)
        assert again.headers["idempotent-replayed"] == "true"
        other = body | (
            {"amount": {"amount": "6.00", "currency": "EUR"}} if "amount" in body else {"name": "X"}
        )
        if path in {"/v1/cards", "/v1/cardholders"}:
            other = body | ({"activate": False} if path == "/v1/cards" else {"family_name": "X"})
        conflict = await demo.send("POST", path, other, key=key)
        assert conflict.status_code == 409, conflict.text
        assert conflict.json()["type"].endswith("/problems/idempotency-key-reused")


async def test_same_key_of_two_tenants_is_independent(stack: Stack, demo: Caller) -> None:
    key = str(uuid.uuid4())
    own = await demo.post("/v1/programs", PROGRAMME, key=key)
    async with stack.caller("rival") as rival:
        other = await rival.post("/v1/programs", PROGRAMME, key=key)
    assert own["id"] != other["id"]


@pytest.mark.parametrize("copies", [2, 8])
async def test_concurrent_copies_have_one_effect(demo: Caller, copies: int) -> None:
    card = await demo.funded_card("1.00")
    body = {"card_id": card["id"], "amount": {"amount": "5.00", "currency": "EUR"}}
    key = str(uuid.uuid4())
    responses = await asyncio.gather(
        *(demo.send("POST", "/v1/simulated-loads", body, key=key) for _ in range(copies))
    )
    done = [response for response in responses if response.status_code == 201]
    assert done
    assert len({response.content for response in done}) == 1
    assert {response.status_code for response in responses} <= {201, 409}
    balance = await demo.get(f"/v1/cards/{card['id']}/balance")
    assert balance["posted"] == "6.00"
