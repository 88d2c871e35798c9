"""Users over the API: owners only, nothing beyond the caller's own rights, no secrets in answers or logs."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from engine.scopes import REVEAL, SCOPES, default_scopes
from tests.support.api.console.people import person
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

BODY = {"email": "Ada@Example.com", "name": "Ada Lovelace", "role": "user"}


def body_of(tenant: str, **fields: Any) -> dict[str, Any]:
    return BODY | {"email": f"Ada@{tenant}.example"} | fields


@pytest_asyncio.fixture(loop_scope="session")
async def owner(running: Installation, tenant: str) -> Caller:
    return await running.caller(tenant, role="owner")


async def test_created_user_is_invited_and_listed(owner: Caller, tenant: str) -> None:
    made = await owner.post("/v1/users", body_of(tenant), key="once")
    assert await owner.post("/v1/users", body_of(tenant), key="once") == made
    url = made.pop("invitation_url")
    assert url.startswith("http://api.test/console/enter/")
    made.pop("invitation_expires_at")
    assert (made["email"], made["status"], made["modes"]) == (f"ada@{tenant}.example", "invited", ["test"])
    assert await owner.get(f"/v1/users/{made['id']}") == made
    assert (await owner.get("/v1/users"))["data"] == [made]
    assert (await owner.get("/v1/users?status=active"))["data"] == []
    (entry,) = (await owner.get(f"/v1/audit-log?object_id={made['id']}"))["data"]
    assert (entry["act"], entry["after"]["email"], entry["after"]["name"]) == ("create_user", "***", "***")
    assert url.rpartition("/")[2] not in str(entry)


async def test_address_belongs_to_one_user(running: Installation, owner: Caller, tenant: str) -> None:
    await owner.post("/v1/users", body_of(tenant))
    refused = await owner.post("/v1/users", body_of(tenant, email=f"ADA@{tenant}.example"), 409)
    assert refused["type"] == "/problems/user-exists"
    rival = await running.caller(f"{tenant}-rival", role="owner")
    assert (await rival.post("/v1/users", body_of(tenant), 409))["type"] == "/problems/user-exists"


@pytest.mark.parametrize(
    ("options", "given", "status"),
    [
        ({}, {"role": "owner"}, 201),
        ({}, {"modes": ["live"]}, 403),
        ({}, {"modes": ["test", "live"]}, 403),
        ({}, {"reveal": True}, 403),
        ({"scopes": SCOPES}, {"reveal": True}, 201),
        ({"mode": "live"}, {"modes": ["live"]}, 201),
        # A user has all scopes of its role: a narrow client cannot create one.
        ({"scopes": ("users:write", "cards:read")}, {}, 403),
    ],
)
async def test_rights_beyond_the_callers_own_are_refused(
    running: Installation, tenant: str, options: dict[str, Any], given: dict[str, Any], status: int
) -> None:
    caller = await running.caller(tenant, role="owner", **options)
    answer = await caller.post("/v1/users", body_of(tenant, **given), status)
    if status == 403:
        assert answer["type"] == "/problems/grant-exceeds-caller"


@pytest.mark.parametrize("role", ["user", "admin"])
async def test_other_roles_cannot_manage_users(running: Installation, tenant: str, role: str) -> None:
    caller = await running.caller(tenant, role=role, scopes=("users:read", "users:write"))
    assert (await caller.get("/v1/users", 403))["type"] == "/problems/role-not-allowed"
    assert (await caller.post("/v1/users", body_of(tenant), 403))["type"] == "/problems/role-not-allowed"


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ({"email": "nobody"}, "/email"),
        ({"name": ""}, "/name"),
        ({"role": "root"}, "/role"),
        ({"modes": []}, "/modes"),
        ({"modes": ["sandbox"]}, "/modes/0"),
        ({"password": "x"}, "/password"),
    ],
)
async def test_invalid_user_is_refused_with_a_pointer(
    owner: Caller, tenant: str, given: dict[str, Any], pointer: str
) -> None:
    refused = await owner.post("/v1/users", body_of(tenant, **given), 400)
    assert [error["pointer"] for error in refused["errors"]] == [pointer]


async def test_user_of_both_modes_is_seen_in_both_and_managed_by_neither_client(
    running: Installation, owner: Caller, tenant: str
) -> None:
    live_owner = await running.caller(tenant, role="owner", mode="live")
    both = await person(running, tenant)
    only_test = await person(running, tenant, modes=("test",))
    for client, expected in ((owner, [only_test.id, both.id]), (live_owner, [both.id])):
        for query in ("", "?status=invited"):
            assert [each["id"] for each in (await client.get(f"/v1/users{query}"))["data"]] == expected
    path = f"/v1/users/{both.id}"
    assert (await owner.get(path)) == (await live_owner.get(path))
    await live_owner.get(f"/v1/users/{only_test.id}", 404)
    for client in (owner, live_owner):
        assert (await client.patch(path, {"role": "user"}, 403))["type"] == "/problems/grant-exceeds-caller"
        for act in ("disable", "enable", "reset-totp", "end-sessions", "invite"):
            await client.post(f"{path}/{act}", None, 403)
    await owner.post(f"/v1/users/{only_test.id}/disable", None, 200)


async def test_change_is_recorded_and_counts_at_once(
    running: Installation, owner: Caller, tenant: str
) -> None:
    admin = await person(running, tenant, role="admin", modes=("test",))
    async with visitor(running, admin) as browser:
        await browser.get("/audit-log")
        changed = await owner.patch(f"/v1/users/{admin.id}", {"role": "user", "name": "Ada"})
        assert (changed["role"], changed["name"]) == ("user", "Ada")
        await browser.get("/audit-log", 403)
    entry = (await owner.get(f"/v1/audit-log?object_id={admin.id}&act=update_user"))["data"][0]
    assert (entry["before"], entry["after"]) == (
        {"name": "***", "role": "admin"},
        {"name": "***", "role": "user"},
    )
    assert await owner.patch(f"/v1/users/{admin.id}", {"role": "user"}) == changed
    assert (await owner.patch(f"/v1/users/{admin.id}", {}, 400))["type"] == "/problems/validation-failed"


async def test_disabled_user_is_signed_out_and_kept_out(
    running: Installation, owner: Caller, tenant: str
) -> None:
    known = await person(running, tenant, modes=("test",))
    invitation = await owner.post(f"/v1/users/{known.id}/invite")
    link = invitation["invitation_url"].partition("/console")[2]
    async with visitor(running, known) as browser:
        disabled = await owner.post(f"/v1/users/{known.id}/disable", None, 200)
        assert disabled["status"] == "disabled"
        assert (await browser.get("/account", 303)).headers["location"].startswith("/console/sign-in")
        await browser.get(link, 404)
        refused = await owner.post(f"/v1/users/{known.id}/invite", None, 409)
        assert refused["type"] == "/problems/user-disabled"
        assert await owner.post(f"/v1/users/{known.id}/disable", None, 200) == disabled
        enabled = await owner.post(f"/v1/users/{known.id}/enable", None, 200)
        assert (enabled["status"], enabled["disabled_at"]) == ("active", None)
        await browser.sign_in(known)


async def test_totp_is_reset_and_sessions_end(running: Installation, owner: Caller, tenant: str) -> None:
    known = await person(running, tenant, modes=("test",), secret=b"s" * 20)
    shown = await owner.post(f"/v1/users/{known.id}/reset-totp", None, 200)
    assert not shown["totp_enabled"]
    async with visitor(running, known) as browser:
        await browser.get("/account")
        await owner.post(f"/v1/users/{known.id}/end-sessions", None, 200)
        await browser.get("/account", 303)


async def test_user_cannot_change_its_own_rights(running: Installation, tenant: str) -> None:
    known = await person(running, tenant, reveal=True)
    async with visitor(running, known) as browser:
        for path, fields in (
            ("", {"name": "Me", "role": "user", "modes": ["test", "live"], "reveal": "true"}),
            ("", {"name": "Me", "role": "owner", "modes": ["test"], "reveal": "true"}),
            ("/disable", {}),
        ):
            answer = await browser.post(f"/users/{known.id}{path}", fields, 409)
            assert "Users cannot do this to themselves" in answer.text
        own = {"name": "Me", "role": "owner", "modes": ["test", "live"], "reveal": "true"}
        await browser.post(f"/users/{known.id}", own)


async def test_scopes_of_a_user_are_those_of_its_role(running: Installation, tenant: str) -> None:
    for role, reveal in (("user", False), ("admin", True)):
        known = await person(running, tenant, role=role, reveal=reveal)
        async with visitor(running, known) as browser:
            await browser.get("/users", 403)
    assert REVEAL not in default_scopes("owner")
