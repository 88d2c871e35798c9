"""Cards over the API: issue, read, change, balance."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors.ids import new_id
from engine.ids import shard_of
from engine.pan import luhn_valid
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import passed_check
from tests.support.api.stack import Installation

MEMBERS = {
    "replaces",
    "replaced_by",
    "id",
    "programme_id",
    "card_product_id",
    "cardholder_id",
    "pan_ref",
    "last4",
    "iin",
    "exp_month",
    "exp_year",
    "state",
    "state_reason",
    "controls",
    "funding_account_id",
    "cvk_generation",
    "network",
    "currency",
    "created_at",
    "cardholder_name",
    "cardholder_email",
    "external_ref",
    "metadata",
}


async def test_issued_card_is_returned_and_published(acme: Caller) -> None:
    programme = await acme.programme()
    defaults = [{"kind": "per_txn_cap", "amount": "50.00"}]
    product = await acme.product(programme, control_defaults=defaults)
    holder = await acme.cardholder(programme)
    card = await acme.card(product, holder)
    assert set(card) == MEMBERS
    assert (card["state"], card["controls"], card["currency"]) == ("active", defaults, "EUR")
    assert (card["cardholder_name"], card["cardholder_email"]) == ("Ada Lovelace", "ada@example.com")
    created = [int(part) for part in card["created_at"][:7].split("-")]
    assert [card["exp_year"], card["exp_month"]] == [created[0] + 3, created[1]]
    assert shard_of(card["funding_account_id"]) == shard_of(card["id"])
    assert await acme.get(f"/v1/cards/{card['id']}") == card
    assert (await acme.get("/v1/cards"))["data"] == [card]
    told = (await acme.get("/v1/events?types=card.created"))["data"][0]["data"]
    assert told == {
        name: value
        for name, value in card.items()
        if not name.startswith("cardholder_") or name.endswith("id")
    }


async def test_initial_state_depends_on_form_factor_and_activate(acme: Caller) -> None:
    programme = await acme.programme()
    holder = await acme.cardholder(programme)
    virtual, physical = await acme.product(programme), await acme.product(programme, form_factor="physical")
    assert (await acme.card(physical, holder))["state"] == "unactivated"
    assert (await acme.card(physical, holder, activate=True))["state"] == "active"
    assert (await acme.card(virtual, holder, activate=False))["state"] == "unactivated"
    assert (await acme.card(virtual, holder, activate=None))["state"] == "active"


async def test_controls_of_the_request_replace_the_product_defaults(acme: Caller) -> None:
    programme = await acme.programme()
    product = await acme.product(programme, control_defaults=[{"kind": "per_day_cap", "count": 1}])
    holder = await acme.cardholder(programme)
    assert (await acme.card(product, holder, controls=[]))["controls"] == []
    assert (await acme.card(product, holder, controls=None))["controls"] == [
        {"kind": "per_day_cap", "count": 1}
    ]


async def test_cards_share_a_funding_account_or_have_none(acme: Caller) -> None:
    first = await acme.funded_card("10.00")
    shared = await acme.card(
        {"id": first["card_product_id"]},
        {"id": first["cardholder_id"]},
        funding_account_id=first["funding_account_id"],
    )
    assert shard_of(shared["id"]) == shard_of(first["id"])
    assert (await acme.get(f"/v1/cards/{shared['id']}/balance"))["available"] == "10.00"
    await acme.spend(shared, "4.00")
    assert (await acme.get(f"/v1/cards/{first['id']}/balance"))["available"] == "6.00"

    unfunded = await acme.card(
        {"id": first["card_product_id"]}, {"id": first["cardholder_id"]}, funding_account_id=None
    )
    assert unfunded["funding_account_id"] is None
    balance = await acme.get(f"/v1/cards/{unfunded['id']}/balance")
    assert (balance["account_id"], balance["available"]) == (None, "0.00")
    assert (await acme.spend(unfunded, "1.00"))["decline_reason"] == "insufficient_funds"
    refused = await acme.load(unfunded, "1.00", status=409)
    assert refused["type"] == "/problems/card-not-funded"


async def test_funding_account_of_another_programme_returns_404(acme: Caller) -> None:
    first, second = await acme.funded_card(), await acme.funded_card()
    body = {
        "card_product_id": first["card_product_id"],
        "cardholder_id": first["cardholder_id"],
        "funding_account_id": second["funding_account_id"],
    }
    await acme.post("/v1/cards", body, 404)


async def test_card_without_its_prerequisites_is_refused(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}

    async def refused(slug: str, **fields: Any) -> None:
        assert (await acme.post("/v1/cards", body | fields, 409))["type"] == f"/problems/{slug}"

    await refused("programme-mismatch", cardholder_id=(await acme.cardholder(await acme.programme()))["id"])
    checked = await acme.product(programme, kyc_flow="basic")
    await refused("kyc-not-passed", card_product_id=checked["id"])
    await passed_check(acme, holder)
    await acme.card(checked, holder)
    stronger = await acme.product(programme, kyc_flow="document")
    await refused("kyc-not-passed", card_product_id=stronger["id"])
    await running.services.pool.execute(
        "UPDATE cardholders SET status = 'blocked' WHERE id = $1", holder["id"]
    )
    await refused("cardholder-not-active")
    await acme.post(f"/v1/card-products/{product['id']}/retire", status=200)
    await refused("card-product-retired")
    await acme.post("/v1/cards", body | {"card_product_id": new_id()}, 404)


async def test_pan_is_stored_sealed_and_never_returned(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    product = await acme.product(programme, iin="40000012")
    card = await acme.card(product, await acme.cardholder(programme))
    row = await running.services.pool.fetchrow("SELECT * FROM pans WHERE card_id = $1", card["id"])
    assert row is not None
    vault = running.services.vault
    pan = vault.open("pan", row["sealed"], card["id"].encode()).decode()
    assert re.fullmatch("40000012[0-9]{8}", pan)
    assert luhn_valid(pan)
    assert card["last4"] == pan[-4:]
    assert row["digest"] == vault.digest("pan-lookup", pan.encode())
    seen = (await acme.send("GET", f"/v1/cards/{card['id']}")).text + (
        await acme.send("GET", "/v1/events")
    ).text
    assert pan not in seen
    assert pan[8:-1] not in seen


MOVES = {
    "unactivated": {"active", "terminated", "lost", "stolen"},
    "active": {"suspended", "terminated", "lost", "stolen"},
    "suspended": {"active", "terminated", "lost", "stolen"},
    "terminated": set(),
    "lost": set(),
    "stolen": set(),
}


@pytest.mark.parametrize("start", MOVES)
async def test_state_changes_follow_the_table_of_moves(acme: Caller, start: str) -> None:
    programme = await acme.programme()
    product, holder = await acme.product(programme), await acme.cardholder(programme)
    for end in MOVES:
        card = await acme.card(product, holder, activate=start != "unactivated")
        path = f"/v1/cards/{card['id']}"
        if start not in {"unactivated", "active"}:
            await acme.patch(path, {"state": start})
        if end == start:
            assert (await acme.patch(path, {"state": end}))["state"] == end
        elif end in MOVES[start]:
            changed = await acme.patch(path, {"state": end, "state_reason": "because"})
            assert (changed["state"], changed["state_reason"]) == (end, "because")
            assert await acme.get(path) == changed
        else:
            refused = await acme.patch(path, {"state": end}, 409)
            assert refused["type"] == "/problems/invalid-state-transition"
            assert (await acme.get(path))["state"] == start


async def test_changed_controls_apply_to_the_next_spend(acme: Caller) -> None:
    card = await acme.funded_card()
    assert (await acme.spend(card, "1.00"))["decision"] == "approved"
    changed = await acme.patch(
        f"/v1/cards/{card['id']}", {"controls": [{"kind": "channel_deny", "values": ["pos"]}]}
    )
    assert changed["controls"] == [{"kind": "channel_deny", "values": ["pos"]}]
    assert (await acme.spend(card, "1.00"))["decline_reason"] == "channel_not_allowed"
    await acme.patch(f"/v1/cards/{card['id']}", {"controls": []})
    assert (await acme.spend(card, "1.00"))["decision"] == "approved"


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"state_reason": "x"},
        {"state": None},
        {"state": "expired"},
        {"last4": "1234"},
        {"state": "active", "id": "x"},
    ],
)
async def test_invalid_change_is_refused(acme: Caller, change: dict[str, Any]) -> None:
    card = await acme.funded_card()
    assert (await acme.patch(f"/v1/cards/{card['id']}", change, 400))["type"] == "/problems/validation-failed"


async def test_change_to_the_current_values_publishes_no_event(acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "active"})
    await acme.patch(f"/v1/cards/{card['id']}", {"controls": []})
    assert (await acme.get("/v1/events?types=card.updated"))["data"] == []


@pytest.mark.parametrize("id_", ["x", "019AA6F0-4F2C-7CC1-9A31-5B0F6F3F2A7E", "%00", "..%2F", "0" * 500])
async def test_malformed_id_returns_404(acme: Caller, id_: str) -> None:
    assert (await acme.send("GET", f"/v1/cards/{id_}")).status_code == 404


@pytest.mark.parametrize("amount", ["0", "0.00", "0.0"])
async def test_load_of_zero_is_refused(acme: Caller, amount: str) -> None:
    card = await acme.funded_card()
    problem = await acme.load(card, amount, status=400)
    assert problem["errors"][0]["pointer"] == "/amount/amount"


async def test_load_increases_the_balance(acme: Caller) -> None:
    card = await acme.funded_card("0.10")
    loaded = await acme.load(card, "9999999999.9")
    assert loaded["amount"] == {"amount": "9999999999.90", "currency": "EUR"}
    assert loaded["available"] == "10000000000.00"
    assert loaded["account_id"] == card["funding_account_id"]
    balance = await acme.get(f"/v1/cards/{card['id']}/balance")
    assert (balance["posted"], balance["held"]) == ("10000000000.00", "0.00")
