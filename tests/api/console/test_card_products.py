"""The pages of card products."""

from __future__ import annotations

from typing import Any

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def fields(programme: Any, **changes: Any) -> dict[str, Any]:
    return {
        "programme_id": programme["id"],
        "name": "Virtual <debit>",
        "network": "visa",
        "currency": "EUR",
        "form_factor": "virtual",
        "iin": "45600000",
        "kyc_flow": "",
        "external_ref": "virtual-2026",
        "metadata.0.key": "team",
        "metadata.0.value": "<b>red</b>",
        "control_defaults.0.kind": "mcc_deny",
        "control_defaults.0.value": "7995",
        "control_defaults.1.kind": "per_txn_cap",
        "control_defaults.1.value": "250.00",
        "do": "create",
        **changes,
    }


async def test_product_is_created_with_controls_changed_and_retired(
    running: Installation, acme: Caller
) -> None:
    programme = await acme.programme()
    async with visitor(running, acme) as browser:
        page = (await browser.get("/card-products/new", programme_id=programme["id"])).text
        assert f'<option value="{programme["id"]}" selected>Everyday' in page
        added = fields(programme, do="add:control_defaults")
        assert "control_defaults.2.value" in (await browser.post("/card-products/new", added, 200)).text
        made = await browser.post("/card-products/new", fields(programme))
        page = (await browser.follow(made)).text
        assert "Virtual &lt;debit&gt;" in page
        assert "none of these merchant categories: 7995" in page
        assert "&lt;b&gt;red&lt;/b&gt;" in page
        path = made.headers["location"].removeprefix("/console")
        shown = (await browser.follow(await browser.post(f"{path}/retire"))).text
        assert "no more cards are issued under it" in shown
        assert 'id="retire"' not in shown
        assert path in (await browser.get("/card-products", programme_id=programme["id"])).text
    [product] = (await acme.get("/v1/card-products"))["data"]
    assert product["control_defaults"] == [
        {"kind": "mcc_deny", "values": ["7995"]},
        {"kind": "per_txn_cap", "amount": "250.00"},
    ]
    assert (product["status"], product["external_ref"]) == ("retired", "virtual-2026")
    assert product["metadata"] == {"team": "<b>red</b>"}


async def test_problems_are_shown_at_their_fields(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    async with visitor(running, acme) as browser:
        wrong = fields(programme, iin="51", **{"control_defaults.1.value": "much"})
        page = (await browser.post("/card-products/new", wrong, 400)).text
        assert 'id="iin-error"' in page
        assert 'id="control_defaults.1-error"' in page
        assert 'value="much"' in page
    assert (await acme.get("/v1/card-products"))["data"] == []


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    programme = await acme.programme()
    product = await acme.product(programme, name="Only Acme")
    path = f"/card-products/{product['id']}"
    reader = await running.caller(tenant, scopes=("card_products:read",))
    async with visitor(running, reader) as browser:
        assert "<dialog" not in (await browser.get(path)).text
        await browser.post(f"{path}/retire", {}, 403)
        await browser.post("/card-products/new", fields(programme), 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        await browser.get(path, 404)
        await browser.post(f"{path}/retire", {}, 404)
        await browser.post("/card-products/new", fields(programme), 404)
        assert "Only Acme" not in (await browser.get("/card-products")).text
    assert (await acme.get(f"/v1/card-products/{product['id']}"))["status"] == "active"
