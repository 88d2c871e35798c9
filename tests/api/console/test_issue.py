"""The page that issues a card."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from api.console.api_calls import Answer, ConsoleApi, Problem
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

PATH = "/cards/new"


def fields(product: Any, **changes: Any) -> dict[str, Any]:
    """The form of a card for a new cardholder."""
    return {
        "programme_id": product["programme_id"],
        "card_product_id": product["id"],
        "holder_choice": "new",
        "holder.given_name": "Grace",
        "holder.family_name": "Hopper",
        "holder.email": "grace@example.com",
        "account": "new",
        "activate": "",
        "external_ref": "",
        "metadata.0.key": "team",
        "metadata.0.value": "navy",
        "do": "issue",
        **changes,
    }


async def test_card_is_issued_to_a_new_cardholder_with_its_own_controls(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    controls = [{"kind": "mcc_deny", "values": ["7995"]}]
    product = await acme.product(programme, control_defaults=controls)
    retired = await acme.product(programme, name="Old virtual")
    await acme.post(f"/v1/card-products/{retired['id']}/retire", {}, 200)
    async with visitor(running, acme) as browser:
        page = (await browser.get(PATH)).text
        assert "Everyday" in page
        assert "card_product_id" not in page
        page = (await browser.post(PATH, {"programme_id": programme["id"], "do": "renew"}, 200)).text
        assert f'<option value="{product["id"]}" selected>' in page, "the only product is chosen"
        assert "Old virtual" not in page
        assert "none of these merchant categories: 7995" in page
        own = {"own_controls": "true", "controls.0.kind": "per_txn_cap", "controls.0.value": "20.00"}
        sent = fields(product, external_ref="card-1", key=str(uuid.uuid4()), **own)
        made = [await browser.post(PATH, sent) for _ in range(2)]
        assert made[0].headers["location"] == made[1].headers["location"], "a form sent twice acts once"
        assert "The card is issued" in (await browser.follow(made[0])).text
    [card] = (await acme.get("/v1/cards"))["data"]
    assert made[0].headers["location"].endswith(card["id"])
    assert card["controls"] == [{"kind": "per_txn_cap", "amount": "20.00"}]
    assert (card["external_ref"], card["metadata"], card["state"]) == ("card-1", {"team": "navy"}, "active")
    [holder] = (await acme.get("/v1/cardholders"))["data"]
    assert (holder["id"], holder["given_name"]) == (card["cardholder_id"], "Grace")


async def test_existing_cardholder_is_found_and_an_account_is_shared(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    product = await acme.product(programme)
    holder = await acme.cardholder(programme, external_ref="h-1")
    await acme.cardholder(programme, given_name="Augusta")
    first = await acme.card(product, holder)
    shared = {"account": "shared", "funding_account_id": first["funding_account_id"]}
    async with visitor(running, acme) as browser:
        page = (await browser.get(PATH, account_id=first["funding_account_id"])).text
        assert 'value="shared" selected' in page
        assert f'value="{holder["id"]}"' in page
        existing = fields(product, holder_choice="existing", **shared)
        made = await browser.post(PATH, existing | {"find": "h-1", "activate": "false"})
        second = await acme.get("/v1/cards/" + made.headers["location"].rpartition("/")[2])
        assert second["funding_account_id"] == first["funding_account_id"]
        assert (second["cardholder_id"], second["state"]) == (holder["id"], "unactivated")
        page = (await browser.post(PATH, existing | {"find": "ada@example.com"}, 400)).text
        assert "Several cardholders have it" in page
        assert "Augusta" in page
        assert 'id="find-error"' in (await browser.post(PATH, existing | {"find": "unknown"}, 400)).text
        assert 'id="cardholder_id-error"' in (await browser.post(PATH, existing, 400)).text
        none = fields(product, holder_choice="existing", cardholder_id=holder["id"], account="none")
        await browser.post(PATH, none)
    assert len((await acme.get("/v1/cards"))["data"]) == 3


async def test_refused_card_keeps_the_new_cardholder_and_says_how_to_go_on(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    product = await acme.product(programme, kyc_flow="basic")
    async with visitor(running, acme) as browser:
        wrong = fields(product, **{"holder.email": "none"})
        assert 'id="holder.email-error"' in (await browser.post(PATH, wrong, 400)).text
        assert (await acme.get("/v1/cardholders"))["data"] == []
        page = (await browser.post(PATH, fields(product), 409)).text
        [holder] = (await acme.get("/v1/cardholders"))["data"]
        assert "The cardholder is created; the card is not issued yet" in page
        assert f'<option value="{holder["id"]}" selected>' in page
        assert "demands the identity check" in page
        free = await acme.product(programme, name="Without identity check")
        await browser.post(PATH, fields(free, holder_choice="existing", cardholder_id=holder["id"]))
    assert len((await acme.get("/v1/cardholders"))["data"]) == 1
    assert len((await acme.get("/v1/cards"))["data"]) == 1


async def test_lost_answers_lead_to_one_card_when_the_form_is_sent_again(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    product = await acme.product(await acme.programme())
    call, lost = ConsoleApi.post, ["/v1/cardholders", "/v1/cards"]

    async def post(self: ConsoleApi, path: str, body: Any = None, *, key: str | None = None) -> Answer:
        answer = await call(self, path, body, key=key)
        if path not in lost:
            return answer
        lost.remove(path)
        return Problem(503, "service-unavailable", "Unavailable", "The answer is lost.")

    monkeypatch.setattr(ConsoleApi, "post", post)
    sent = fields(product, key=str(uuid.uuid4()))
    async with visitor(running, acme) as browser:
        for created in (False, True):
            page = (await browser.post(PATH, sent, 503)).text
            assert f'name="key" value="{sent["key"]}"' in page
            assert "Send the form again" in page
            assert ("The cardholder is created" in page) is created
        [holder] = (await acme.get("/v1/cardholders"))["data"]
        await browser.post(PATH, sent | {"holder_choice": "existing", "cardholder_id": holder["id"]})
    assert len((await acme.get("/v1/cards"))["data"]) == 1


async def test_page_follows_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    product = await acme.product(await acme.programme())
    holder = await acme.cardholder({"id": product["programme_id"]})
    reader = await running.caller(tenant, scopes=("cards:read", "programs:read"))
    async with visitor(running, reader) as browser:
        await browser.get(PATH, 403)
        await browser.post(PATH, fields(product), 403)
        assert "Issue a card" not in (await browser.get("/cards")).text
    issuer = await running.caller(tenant, scopes=("cards:read", "cards:write", "programs:read"))
    async with visitor(running, issuer) as browser:
        page = (await browser.get(PATH, programme_id=product["programme_id"])).text
        assert "a new cardholder" not in page
        await browser.post(PATH, fields(product, holder_choice="existing", cardholder_id=holder["id"]))
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        await browser.get(PATH, card_product_id=product["id"])
        await browser.post(PATH, fields(product), 404)
    assert (await stranger.get("/v1/cards"))["data"] == []
