"""The form of the tenant's own records: reference and metadata of every kind of object."""

from __future__ import annotations

import pytest

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.mark.parametrize("kind", ["programmes", "card-products", "cardholders", "cards", "transactions"])
async def test_reference_and_pairs_are_changed(running: Installation, acme: Caller, kind: str) -> None:
    card = await acme.funded_card("10.00")
    ids = {
        "programmes": card["programme_id"],
        "card-products": card["card_product_id"],
        "cardholders": card["cardholder_id"],
        "cards": card["id"],
    }
    if kind == "transactions":
        ids[kind] = (await acme.spend(card, "5.00"))["transaction_id"]
    api = f"/v1/{kind.replace('programmes', 'programs')}/{ids[kind]}"
    await acme.patch(api, {"metadata": {"team": "red", "old": "1"}})
    page_of, path = f"/{kind}/{ids[kind]}", f"/{kind}/{ids[kind]}/records"
    async with visitor(running, acme) as browser:
        assert f'href="/console{path}"' in (await browser.get(page_of)).text
        form = (await browser.get(path)).text
        assert 'value="red"' in form
        assert ('name="external_ref"' in form) == (kind != "transactions")
        rows = {
            "external_ref": "ours-7",
            "metadata.0.key": "team",
            "metadata.0.value": "blue",
            "metadata.1.key": "cost/centre",
            "metadata.1.value": "<4711>",
        }
        assert "metadata.2.key" in (await browser.post(path, rows | {"do": "add:metadata"}, 200)).text
        page = (await browser.follow(await browser.post(path, rows | {"do": "save"}))).text
        assert "&lt;4711&gt;" in page
        found = await acme.get(api)
        assert found["metadata"] == {"team": "blue", "cost/centre": "<4711>"}
        assert found.get("external_ref", "ours-7") == "ours-7"
        wrong = rows | {"metadata.1.key": "a/" + "b" * 100, "do": "save"}
        assert 'id="metadata.1-error"' in (await browser.post(path, wrong, 400)).text
        await browser.post(path, {"do": "save"})
        found = await acme.get(api)
        assert (found["metadata"], found.get("external_ref")) == ({}, None)
