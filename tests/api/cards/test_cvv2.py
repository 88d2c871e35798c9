"""The CVV2 of test cards: the value that the edge accepts, computed and never stored."""

from __future__ import annotations

import asyncpg

from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def test_edge_accepts_the_returned_cvv2_and_declines_another(acme: Caller) -> None:
    card = await acme.funded_card()
    value = (await acme.post(f"/v1/cards/{card['id']}/cvv2", status=200))["cvv2"]
    assert len(value) == 3
    right = await acme.spend(card, "1.00", scenario="cvv2_presented", cvv2=value)
    assert right["decision"] == "approved"
    wrong = await acme.spend(card, "1.00", scenario="cvv2_presented", cvv2=f"{(int(value) + 1) % 1000:03d}")
    assert wrong["decline_reason"] == "cvv2_mismatch"


async def test_cvv2_is_computed_for_each_request_and_not_stored(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    path = f"/v1/cards/{card['id']}/cvv2"
    connection = await asyncpg.connect(running.services.settings.database_dsn)
    try:
        before = await connection.fetchval("SELECT count(*) FROM idempotency")
        first, second = [await acme.send("POST", path, key="one") for _ in range(2)]
        assert await connection.fetchval("SELECT count(*) FROM idempotency") == before
    finally:
        await connection.close()
    assert first.status_code == 200
    assert first.content == second.content
    assert (await acme.send("POST", path, key=None)).status_code == 400


async def test_cvv2_of_a_live_card_is_refused(running: Installation, tenant: str) -> None:
    live = await running.caller(tenant, mode="live")
    programme = await live.programme()
    card = await live.card(await live.product(programme), await live.cardholder(programme))
    problem = await live.post(f"/v1/cards/{card['id']}/cvv2", status=403)
    assert problem["type"] == "/problems/test-mode-only"
