"""Erasing a cardholder destroys keys and personal data; the ledger and ids remain."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.api.kyc.test_canaries import dump
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, applicant, begin, submit
from tests.support.api.stack import Installation
from tests.support.api.vision.applicant import bind, open_session, vision_host

PERSONAL = ("given_name", "family_name", "email", "phone", "date_of_birth", "address", "external_ref")


async def erase(caller: Caller, holder: Any, status: int = 204, key: str | None = None) -> Any:
    response = await caller.send("DELETE", f"/v1/cardholders/{holder['id']}", key=key)
    assert response.status_code == status, response.text
    return response.json() if response.content else None


async def erased_events(caller: Caller) -> list[Any]:
    return [event["data"] for event in (await caller.get("/v1/events?types=cardholder.erased"))["data"]]


async def test_erased_cardholder_keeps_id_and_no_personal_data(running: Installation, acme: Caller) -> None:
    address = {"line1": "1 Main St", "city": "Cork", "postcode": "T12", "country": "IE"}
    holder = await acme.cardholder(
        await acme.programme(),
        phone="+353861234567",
        date_of_birth="1990-05-17",
        address=address,
        external_ref="u-1",
    )
    await erase(acme, holder)
    gone = await acme.get(f"/v1/cardholders/{holder['id']}")
    assert gone["erased_at"] == gone["updated_at"] > holder["updated_at"]
    changes = dict.fromkeys(PERSONAL) | {name: gone[name] for name in ("erased_at", "updated_at")}
    assert gone == holder | changes | {"status": "closed"}
    assert (await acme.get("/v1/cardholders"))["data"] == [gone]
    assert await erased_events(acme) == [
        {
            "cardholder_id": holder["id"],
            "programme_id": holder["programme_id"],
            "status": "closed",
            "kyc_state": None,
            "occurred_at": gone["erased_at"],
        }
    ]
    row = await running.services.pool.fetchrow("SELECT * FROM cardholders WHERE id = $1", holder["id"])
    assert row is not None
    left = {name for name, value in row.items() if value is not None}
    assert left == {
        *("id", "tenant_id", "live", "programme_id", "status", "created_at", "updated_at", "erased_at")
    }


async def test_repeated_erasure_has_no_effect(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme())
    for key in ("first", "first", "second", None):
        await erase(acme, holder, key=key)
    assert len(await erased_events(acme)) == 1


async def test_live_card_prevents_erasure(acme: Caller) -> None:
    card = await acme.funded_card()
    holder = {"id": card["cardholder_id"]}
    refused = await erase(acme, holder, 409, key="again")
    assert refused["type"] == "/problems/cardholder-has-cards"
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["given_name"] == "Ada"
    spend = await acme.spend(card, "1.00")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    await erase(acme, holder, 409, key="again")
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "terminated"})
    await erase(acme, holder, key="again")
    shown = await acme.get(f"/v1/cards/{card['id']}")
    assert (shown["cardholder_name"], shown["cardholder_email"]) == ("", "")
    assert (await acme.get("/v1/cards"))["data"] == [shown]
    transaction = await acme.get(f"/v1/transactions/{spend['transaction_id']}")
    assert transaction["cardholder_id"] == holder["id"]


async def test_erased_cardholder_cannot_be_changed_verified_or_given_cards(acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    await erase(acme, holder)
    refused = await acme.patch(f"/v1/cardholders/{holder['id']}", {"given_name": "Bob"}, 409)
    assert refused["type"] == "/problems/cardholder-erased"
    assert (await acme.patch(f"/v1/cardholders/{holder['id']}", {"status": "closed"}))["erased_at"]
    body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    assert (await acme.post("/v1/cards", body, 409))["type"] == "/problems/cardholder-not-active"
    body = {"cardholder_id": holder["id"], "flow_key": "basic"}
    assert (await acme.post("/v1/kyc/checks", body, 409))["type"] == "/problems/cardholder-closed"


async def test_checks_are_erased_with_their_cardholder(running: Installation, acme: Caller) -> None:
    holder = await applicant(acme)
    passed = await submit(acme, await begin(acme, "basic", holder), BASIC)
    collecting = await begin(acme, "full", holder)
    session = await open_session(acme, collecting)
    await erase(acme, holder)
    states = [(await acme.get(f"/v1/kyc/checks/{check['id']}"))["state"] for check in (passed, collecting)]
    assert states == ["passed", "expired"]
    counts = await running.services.pool.fetchrow(
        """
        SELECT (SELECT count(*) FROM kyc_values WHERE check_id = ANY ($1)) AS values,
               (SELECT count(*) FROM kyc_data_keys WHERE check_id = ANY ($1) AND wrapped IS NOT NULL) AS keys
        """,
        [passed["id"], collecting["id"]],
    )
    assert counts is not None
    assert tuple(counts) == (0, 0)
    async with vision_host(running) as http:
        assert (await bind(http, session, "passport")).status_code == 404
    refused = await acme.post(f"/v1/kyc/checks/{collecting['id']}/submissions", BASIC, 409)
    assert refused["type"] == "/problems/kyc-not-collecting"


@pytest.mark.parametrize(
    ("client", "status"),
    [
        ({"role": "user"}, 403),
        ({"scopes": ("cardholders:read",)}, 403),
        ({"mode": "live"}, 404),
    ],
    ids=["user", "reader", "other mode"],
)
async def test_erasure_needs_scope_role_and_mode(
    running: Installation, acme: Caller, tenant: str, client: dict[str, Any], status: int
) -> None:
    holder = await acme.cardholder(await acme.programme())
    await erase(await running.caller(tenant, **client), holder, status)
    assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["erased_at"] is None


async def test_erasure_by_another_tenant_returns_404(
    running: Installation, acme: Caller, tenant: str
) -> None:
    holder = await acme.cardholder(await acme.programme())
    refused = await erase(await running.caller(f"{tenant}-other"), holder, 404)
    assert refused["type"] == "/problems/not-found"


async def test_no_table_holds_a_cardholders_values_in_clear(running: Installation, acme: Caller) -> None:
    """Covers events, journal and stored responses, before and after the erasure."""
    canaries = {"given_name": "Zyxwvutia", "family_name": "Quokkason", "email": "zq.canary@quokka.example"}
    programme = await acme.programme()
    holder = await acme.cardholder(programme, **canaries, phone="+999123454321")
    card = await acme.card(await acme.product(programme), holder)
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "terminated"})
    await acme.patch(f"/v1/cardholders/{holder['id']}", {"given_name": "Yzxwvutia"})
    for _ in range(2):
        found = {
            name
            for name, content in (await dump(running)).items()
            for value in (*canaries.values(), "Yzxwvutia", "+999123454321")
            if value.encode() in content or value.encode().hex().encode() in content
        }
        assert found == set()
        await erase(acme, holder)


async def test_erasure_concurrent_with_other_requests_is_atomic(running: Installation, acme: Caller) -> None:
    """Each request succeeds or is refused as a whole; all requests take locks in the same order."""
    programme = await acme.programme()
    product = await acme.product(programme)
    for _ in range(6):
        holder = await applicant(acme, programme)
        checks = [await begin(acme, "basic", holder) for _ in range(2)]
        body = {"cardholder_id": holder["id"], "flow_key": "basic"}
        card = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
        paths = [f"/v1/kyc/checks/{check['id']}/submissions" for check in checks]
        erased, *others = await asyncio.gather(
            acme.send("DELETE", f"/v1/cardholders/{holder['id']}"),
            *(acme.send("POST", path, BASIC) for path in paths),
            acme.send("POST", "/v1/kyc/checks", body),
            acme.send("POST", "/v1/cards", card),
        )
        assert erased.status_code in {204, 409}, erased.text
        assert {answer.status_code for answer in others} <= {200, 201, 409}
        if erased.status_code == 409:
            continue
        assert (await acme.get(f"/v1/cardholders/{holder['id']}"))["given_name"] is None
        statement = """
            SELECT count(*) FROM kyc_data_keys d JOIN kyc_checks k ON k.id = d.check_id
            WHERE k.cardholder_id = $1 AND d.wrapped IS NOT NULL
        """
        assert await running.services.pool.fetchval(statement, holder["id"]) == 0
        if others[-1].status_code == 201:
            await acme.load(others[-1].json(), "5.00")
            assert (await acme.spend(others[-1].json(), "1.00"))["decline_reason"] == "cardholder_blocked"
