"""The console's pages of API clients."""

from __future__ import annotations

import re

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

SECRET = re.compile(r"sk_[\w-]+")


async def test_owner_creates_rotates_and_revokes_a_client(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    async with visitor(running, owner) as browser:
        form = {"name": "Back <office>", "role": "user", "scopes": ["cards:read"]}
        created = (await browser.post("/clients/new", form, 201)).text
        (first,) = set(SECRET.findall(created))
        made = (await owner.get("/v1/clients"))["data"][0]
        assert (made["name"], made["scopes"]) == ("Back <office>", ["cards:read"])
        path = f"/clients/{made['id']}"
        rotated = (await browser.post(f"{path}/rotate-secret", {"overlap_hours": "24"}, 200)).text
        (second,) = set(SECRET.findall(rotated))
        assert first != second
        page = (await browser.get(path)).text
        assert "Back &lt;office&gt;" in page
        assert "Previous secret works until" in page
        assert not SECRET.search(page)
        # Both secrets get tokens during the overlap.
        for secret in (first, second):
            answer = await owner.http.post(
                "/v1/oauth/token",
                data={
                    "grant_type": "client_credentials",
                    "client_id": made["client_id"],
                    "client_secret": secret,
                },
            )
            assert answer.status_code == 200
        revoked = (await browser.follow(await browser.post(f"{path}/revoke"))).text
        assert "The client is revoked." in revoked
        assert "rotate-secret" not in revoked
        assert made["id"] not in (await browser.get("/clients")).text.partition("<main")[2]
        assert made["id"] in (await browser.get("/clients?status=revoked")).text


async def test_client_gets_all_scopes_of_its_role_by_default(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    async with visitor(running, owner) as browser:
        await browser.post("/clients/new", {"role": "admin", "every": "true", "scopes": ["cards:read"]}, 201)
    made = (await owner.get("/v1/clients"))["data"][0]
    assert {"cards:write", "audit:read", "links:read"} <= set(made["scopes"])
    assert not {"cards:reveal", "clients:read"} & set(made["scopes"])


async def test_refused_clients_are_explained(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    own = (await owner.get("/v1/clients"))["data"][0]
    async with visitor(running, owner) as browser:
        refused = (await browser.post("/clients/new", {"role": "root", "name": "A"}, 400)).text
        assert 'id="role-error"' in refused
        assert 'id="scopes-error"' in refused
        assert 'value="A"' in refused
        last = (await browser.post(f"/clients/{own['id']}/revoke", status=409)).text
        assert 'role="alert"' in last
        hours = {"overlap_hours": "9999"}
        await browser.post(f"/clients/{own['id']}/rotate-secret", hours, 400)


async def test_clients_are_for_owners(running: Installation, acme: Caller, tenant: str) -> None:
    owner = await running.caller(f"{tenant}-other", role="owner")
    foreign = (await owner.get("/v1/clients"))["data"][0]
    async with visitor(running, acme) as browser:
        for page in ("/clients", "/clients/new", f"/clients/{foreign['id']}"):
            await browser.get(page, 403)
        await browser.post("/clients/new", {"role": "owner", "every": "true"}, 403)
        assert "/console/clients" not in (await browser.get("/webhooks")).text
    own = await running.caller(acme.credentials.name, role="owner")
    async with visitor(running, own) as browser:
        await browser.get(f"/clients/{foreign['id']}", 404)
        await browser.post(f"/clients/{foreign['id']}/revoke", status=404)
