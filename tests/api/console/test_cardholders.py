"""The pages of cardholders: creating, changing, identity checks, erasing."""

from __future__ import annotations

from typing import Any

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

NEW = "/cardholders/new"
ADA = {
    "given_name": "Ada",
    "family_name": "<Byron>",
    "email": "ada@example.com",
    "phone": "",
    "date_of_birth": "1975-12-10",
    "external_ref": "h-1",
    "address.line1": "12 Harbour Street",
    "address.city": "Dublin",
    "address.postcode": "D02 XY45",
    "address.country": "ie",
    "do": "save",
}


async def created(acme: Caller) -> Any:
    [holder] = (await acme.get("/v1/cardholders"))["data"]
    return holder


async def test_cardholder_is_created_changed_and_erased(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    pairs = {"metadata.0.key": "tier", "metadata.0.value": "gold"}
    async with visitor(running, acme) as browser:
        page = (await browser.get(NEW, programme_id=programme["id"])).text
        assert f'<option value="{programme["id"]}" selected>' in page
        new = ADA | pairs | {"programme_id": programme["id"]}
        page = (await browser.follow(await browser.post(NEW, new))).text
        assert "&lt;Byron&gt;" in page
        holder = await created(acme)
        assert holder["address"]["country"] == "IE"
        assert (holder["metadata"], holder["phone"]) == ({"tier": "gold"}, None)
        path = f"/cardholders/{holder['id']}"
        assert 'value="1975-12-10"' in (await browser.get(f"{path}/edit")).text
        assert "has not changed" in (await browser.follow(await browser.post(f"{path}/edit", ADA))).text
        moved = {name: value for name, value in ADA.items() if not name.startswith("address")}
        await browser.post(f"{path}/edit", moved | {"phone": "+353861234567", "external_ref": ""})
        holder = await created(acme)
        assert (holder["phone"], holder["external_ref"], holder["address"]) == ("+353861234567", None, None)
        assert holder["date_of_birth"] == "1975-12-10"
        check = await browser.follow(await browser.post(f"{path}/checks", {"flow_key": "basic"}))
        assert "The check has begun" in check.text
        page = (await browser.follow(await browser.post(f"{path}/erase"))).text
        assert "Erased cardholder" in page
        assert "Edit" not in page
        assert 'role="alert"' in (await browser.post(f"{path}/edit", moved, 409)).text


async def test_problems_are_shown_at_their_fields(running: Installation, acme: Caller) -> None:
    programme = await acme.programme()
    wrong = ADA | {
        "programme_id": programme["id"],
        "email": "ada",
        "phone": "12",
        "address.city": "",
        "metadata.0.key": "a" * 100,
        "metadata.0.value": "b",
    }
    async with visitor(running, acme) as browser:
        page = (await browser.post(NEW, wrong, 400)).text
        for name in ("email", "phone", "address.city", "metadata.0"):
            assert f'id="{name}-error"' in page, name
        assert 'value="12"' in page
    assert (await acme.get("/v1/cardholders"))["data"] == []


async def test_pages_follow_permissions_and_tenants(running: Installation, acme: Caller, tenant: str) -> None:
    programme = await acme.programme()
    holder = await acme.cardholder(programme)
    path, form = f"/cardholders/{holder['id']}", ADA | {"programme_id": programme["id"]}
    reader = await running.caller(tenant, scopes=("cardholders:read",))
    async with visitor(running, reader) as browser:
        page = (await browser.get(path)).text
        for act in ("/edit", "/erase", "/checks", "/records", "/cards/new"):
            assert act not in page, act
        for target in (NEW, f"{path}/edit", f"{path}/erase", f"{path}/checks", f"{path}/records"):
            await browser.post(target, form, 403)
    stranger = await running.caller(f"{tenant}-other")
    async with visitor(running, stranger) as browser:
        await browser.post(NEW, form, 404)
        await browser.get(f"{path}/edit", 404)
        for target in ("edit", "erase", "checks", "records"):
            await browser.post(f"{path}/{target}", form | {"flow_key": "basic"}, 404)
    assert (await created(acme))["family_name"] == "Lovelace"
