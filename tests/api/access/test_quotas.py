"""Quotas of a tenant: objects, idempotency keys and stored bytes."""

from __future__ import annotations

from typing import Any

import pytest

from api.access import quotas as module
from api.access.quotas import Quotas
from api.http.problems import Refusal
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.mark.parametrize("kind", ["programmes", "card_products", "cardholders", "cards"])
async def test_object_beyond_the_quota_of_its_tenant_is_refused(
    running: Installation, acme: Caller, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await running.caller(f"neighbour-with-{kind}")
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    card = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    await acme.post("/v1/cards", card)
    person = {"given_name": "Ada", "family_name": "Byron", "email": "ada@example.com"}
    of_programme = {"programme_id": programme["id"]}
    path, body = {
        "programmes": ("/v1/programs", {"name": "P", "currency": "EUR"}),
        "card_products": (
            "/v1/card-products",
            of_programme
            | {"name": "P", "network": "visa", "currency": "EUR", "form_factor": "virtual", "iin": "400000"},
        ),
        "cardholders": ("/v1/cardholders", of_programme | person),
        "cards": ("/v1/cards", card),
    }[kind]
    async with running.variant(**{f"quota_{kind}": 2}) as http:
        mine = Caller(http, acme.credentials)
        mine.token = acme.token
        # Refused requests and idempotent replays do not count towards the quota.
        for _ in range(3):
            await mine.send("POST", path, {**body, unknown_of(kind): running.services.new_id()})
        first = await mine.send("POST", path, body, key="first")
        assert first.status_code == 201, first.text
        refused = await mine.send("POST", path, body, key="second")
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/quota-reached")
        assert (await mine.send("POST", path, body, key="first")).content == first.content
        if kind == "programmes":
            assert (await same_caller(http, other).send("POST", path, body)).status_code == 201
        # The refusal is not stored under the key: a retry succeeds once the quota is higher.
        monkeypatch.setattr(module, "QUOTA_RECOUNT_SECONDS", 0.0)
    assert (await acme.send("POST", path, body, key="second")).status_code == 201


def unknown_of(kind: str) -> str:
    """The member that makes a request fail with a random id: an unknown member or a reference."""
    return {"programmes": "unknown", "cards": "card_product_id"}.get(kind, "programme_id")


def same_caller(http: Any, caller: Caller) -> Caller:
    same = Caller(http, caller.credentials)
    same.token = caller.token
    return same


async def test_idempotency_keys_per_day_are_limited(running: Installation, acme: Caller) -> None:
    body = {"name": "P", "currency": "EUR"}
    async with running.variant(quota_keys_per_day=2) as http:
        mine = same_caller(http, acme)
        first = await mine.send("POST", "/v1/programs", body, key="1")
        await mine.send("POST", "/v1/programs", {"name": ""}, key="2")
        refused = await mine.send("POST", "/v1/programs", body, key="3")
        assert (refused.status_code, refused.json()["type"]) == (429, "/problems/quota-of-day-reached")
        assert 0 < int(refused.headers["retry-after"]) <= 24 * 3_600
        assert (await mine.send("POST", "/v1/programs", body, key="1")).content == first.content
        assert (await mine.send("GET", "/v1/programs")).status_code == 200


async def test_stored_bytes_are_limited_for_24_hours(running: Installation, acme: Caller) -> None:
    class Moment:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

    settings, clock = running.services.settings.replace(quota_stored_mb_per_day=1), Moment()
    quotas = Quotas(settings, running.services.pool, clock)  # type: ignore[arg-type]
    caller: Any = type("Of", (), {"tenant_id": "a"})
    quotas.stored(caller, 999_999)
    quotas.admit_key(caller)
    quotas.stored(caller, 1)
    with pytest.raises(Refusal, match="quota-of-day-reached"):
        quotas.admit_key(caller)
    clock.at = 24 * 3_600.0
    quotas.admit_key(caller)


async def test_refused_requests_store_less_than_4_kib_each(running: Installation, acme: Caller) -> None:
    size = "SELECT coalesce(sum(length(body)), 0) FROM idempotency"
    before = await running.services.pool.fetchval(size)
    body = {f"unknown_{number:05d}": number for number in range(2_000)}
    for number in range(10):
        assert (await acme.send("POST", "/v1/programs", body, key=f"refused-{number}")).status_code == 400
    assert await running.services.pool.fetchval(size) - before < 10 * 4_096
