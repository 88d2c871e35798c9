"""The pages of programmes: list, settings, form, stand-in policy, outages, decisions in stand-in."""

from __future__ import annotations

import re

from tests.support.api.console.visitor import visitor
from tests.support.api.delegation import delegated_card, policy
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

FIELDS = {
    "name": "Lunch <cards>",
    "external_ref": "lunch",
    "currency": "EUR",
    "mode": "managed",
    "timezone": "Europe/Dublin",
    "hold_expiry_days": "10",
    "decisioning": "delegated",
    "decision_url": "https://decisions.example.com/authorize",
    "decision_timeout_ms": "900",
    "kyc_policy": "basic",
    "kyc_document_types[]": ["passport"],
    "card_renewal": "off",
}
POLICY = {
    "mode": "approve_within_limits",
    "triggers[]": ["timeout"],
    "max_amount": "50.00",
    "max_total_exposure.amount": "200.00",
    "max_total_exposure.currency": "EUR",
    "max_count_per_day": "",
    "mcc_list": "7995, 6051",
    "mcc_list_mode": "deny",
}


async def test_programme_is_created_shown_and_changed(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser:
        assert "No programmes." in (await browser.get("/programmes")).text
        page = (await browser.get("/programmes/new")).text
        assert 'value="UTC"' in page
        made = (await browser.post("/programmes/new", FIELDS, 201)).text
        secret = re.search(r"decsec_[A-Za-z0-9_-]+", made)
        assert secret is not None
        [programme] = (await acme.get("/v1/programs"))["data"]
        path = f"/programmes/{programme['id']}"
        assert path in made
        page = (await browser.get(path)).text
        assert secret[0] not in page
        assert "Lunch &lt;cards&gt;" in page
        assert "the platform, then your endpoint" in page
        assert "900 ms" in page
        assert "funding source" in page
        assert path in (await browser.get("/programmes")).text
        form = (await browser.get(f"{path}/edit")).text
        assert re.search(r'value="passport" checked', form)
        assert not re.search(r'value="national_id" checked', form)
        change = FIELDS | {"name": "Dinner", "kyc_policy": "", "status": "suspended"}
        page = (await browser.follow(await browser.post(f"{path}/edit", change))).text
        assert "The programme is changed." in page
        page = (await browser.follow(await browser.post(f"{path}/edit", change))).text
        assert "The programme has not changed." in page
    changed = await acme.get(f"/v1/programs/{programme['id']}")
    assert (changed["name"], changed["kyc_policy"], changed["status"]) == ("Dinner", None, "suspended")
    assert (changed["version"], changed["kyc_document_types"]) == (2, ["passport"])


async def test_problems_are_shown_at_their_fields(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    async with visitor(running, acme) as browser:
        wrong = FIELDS | {"timezone": "Mars/Olympus", "hold_expiry_days": "many", "decision_url": ""}
        page = (await browser.post("/programmes/new", wrong, 400)).text
        assert 'id="timezone-error"' in page
        assert 'id="hold_expiry_days-error"' in page
        assert 'value="Lunch &lt;cards&gt;"' in page
        page = (await browser.post("/programmes/new", FIELDS | {"decision_url": ""}, 400)).text
        assert 'id="decision_url-error"' in page
        path = f"/programmes/{programme['id']}/stand-in-policy"
        wrong = POLICY | {"max_amount": "much", "max_total_exposure.amount": "-1", "mcc_list": "bets"}
        page = (await browser.post(path, wrong, 400)).text
        for name in ("max_amount", "max_total_exposure.amount", "mcc_list"):
            assert f'id="{name}-error"' in page
    assert len((await acme.get("/v1/programs"))["data"]) == 1


async def test_stand_in_policy_is_replaced(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    path = f"/programmes/{programme['id']}"
    async with visitor(running, acme) as browser:
        assert 'value="disabled" selected' in (await browser.get(f"{path}/stand-in-policy")).text
        page = (await browser.follow(await browser.post(f"{path}/stand-in-policy", POLICY))).text
        assert "The stand-in policy is in force." in page
        assert "200.00 EUR" in page
        assert "not 7995, 6051" in page
        form = (await browser.get(f"{path}/stand-in-policy")).text
        assert re.search(r'value="timeout" checked', form)
        assert 'value="7995, 6051"' in form
    kept = await acme.get(f"/v1/programs/{programme['id']}/stip-policy")
    assert kept["triggers"] == {"connection_error": False, "timeout": True, "invalid_response": False}
    assert kept["max_total_exposure"] == {"amount": "200.00", "currency": "EUR"}
    assert (kept["max_amount"], kept["max_count_per_day"], kept["mcc_list"]) == (
        "50.00",
        None,
        ["7995", "6051"],
    )


async def test_open_outage_and_its_decisions_are_shown(running: Installation, acme: Caller) -> None:
    card = await delegated_card(acme, policy())
    spend = await acme.spend(card, "25.00", scenario="delegated_timeout")
    path = f"/programmes/{card['programme_id']}"
    async with visitor(running, acme) as browser:
        page = (await browser.get(path)).text
        assert "Standing in since" in page
        assert "25.00 of 100.00 EUR used." in page
        assert 'value="0.250"' in page
        page = (await browser.get(f"{path}/stand-in", days="1")).text
        assert "within ceilings" in page
        assert "25.00 of 100.00" in page
        assert f"/console/transactions/{spend['transaction_id']}" in page


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    programme = await acme.programme(name="Only Acme")
    path = f"/programmes/{programme['id']}"
    reader = await running.caller(tenant, scopes=("programs:read",))
    async with visitor(running, reader) as browser:
        page = (await browser.get(path)).text
        assert "You may not see the policy." in page
        assert "/edit" not in page
        assert "New programme" not in (await browser.get("/programmes")).text
        for target, fields in (
            ("/programmes/new", FIELDS),
            (f"{path}/edit", FIELDS),
            (f"{path}/stand-in-policy", POLICY),
        ):
            await browser.get(target, 403)
            await browser.post(target, fields, 403)
        await browser.get(f"{path}/stand-in", 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        assert "Only Acme" not in (await browser.get("/programmes")).text
        for target in (path, f"{path}/edit", f"{path}/stand-in", f"{path}/stand-in-policy"):
            await browser.get(target, 404)
        await browser.post(f"{path}/edit", FIELDS, 404)
        await browser.post(f"{path}/stand-in-policy", POLICY, 404)
    assert (await acme.get(f"/v1/programs/{programme['id']}"))["version"] == 1
