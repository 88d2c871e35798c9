"""The pages of users: by role, with the API's problems at the fields."""

from __future__ import annotations

import re

from tests.support.api.console.people import person
from tests.support.api.console.visitor import visitor
from tests.support.api.stack import Installation


async def test_owner_invites_changes_and_disables_a_user(running: Installation, tenant: str) -> None:
    owner = await person(running, tenant)
    async with visitor(running, owner) as browser:
        fields = {"name": "Grace <b>", "email": f"grace@{tenant}.example", "role": "admin", "modes": "test"}
        key = {"key": "once"}
        page = (await browser.post("/users", fields | key, 200)).text
        link = re.search(r"http://console\.test(/console/enter/[\w-]+)<", page)
        assert link is not None
        assert link[1] in (await browser.post("/users", fields | key, 200)).text, "sent twice, invited once"
        assert "Grace &lt;b&gt;" in (await browser.get("/users")).text
        assert "Grace" not in (await browser.http.get("/console/users?status=active")).text
        async with visitor(running) as guest:
            assert "Grace &lt;b&gt;" in (await guest.http.get(link[1])).text
        user_id = re.search(r'href="/console/users/([0-9a-f-]{36})"', page)
        assert user_id is not None
        path = f"/users/{user_id[1]}"
        change = {"name": "Grace", "role": "user", "modes": ["test", "live"]}
        assert "Grace is changed." in (await browser.follow(await browser.post(path, change))).text
        assert "test, live" in (await browser.get(path)).text
        assert "/console/enter/" in (await browser.post(f"{path}/invite", status=200)).text
        for act, said in (("disable", "is disabled"), ("enable", "can sign in"), ("end-sessions", "ended")):
            assert said in (await browser.follow(await browser.post(f"{path}/{act}"))).text
        await browser.post(f"{path}/reset-totp")


async def test_problems_stand_at_their_fields(running: Installation, tenant: str) -> None:
    owner = await person(running, tenant)
    async with visitor(running, owner) as browser:
        page = (await browser.post("/users", {"name": "", "email": "x", "role": "user"}, 400)).text
        for name in ("name", "email", "modes"):
            assert f'id="{name}-error"' in page, name
        taken = {"name": "N", "email": owner.email, "role": "user", "modes": "test"}
        assert "belongs to a user" in (await browser.post("/users", taken, 409)).text


async def test_other_roles_and_other_tenants_see_nothing(running: Installation, tenant: str) -> None:
    owner, admin = await person(running, tenant), await person(running, tenant, role="admin")
    stranger = await person(running, f"{tenant}-other")
    async with visitor(running, admin) as browser:
        assert 'href="/console/users"' not in (await browser.get("/account")).text
        for path in ("/users", "/users/new", f"/users/{owner.id}"):
            assert "Not permitted" in (await browser.get(path, 403)).text
        await browser.post(f"/users/{owner.id}/disable", status=403)
    async with visitor(running, stranger) as browser:
        await browser.get(f"/users/{owner.id}", 404)
        await browser.post(f"/users/{owner.id}", {"name": "Mine", "role": "user", "modes": "test"}, 404)
        await browser.get("/users/nonsense", 404)
