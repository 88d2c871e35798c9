"""Clients over the API: owners only, no grant beyond one's own, and a revocation that holds everywhere."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import Any

import httpx2
import pytest

from actors.clock import SystemClock
from api.app import create_app
from engine.limits import CLIENTS_MAX, TOKEN_CACHE_SECONDS
from engine.scopes import REVEAL, default_scopes
from ops.database.clients import ClientCredentials
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.fixture
def owner_of(running: Installation, tenant: str) -> Any:
    async def owner(**options: Any) -> Caller:
        return await running.caller(tenant, role="owner", **options)

    return owner


def credentials_of(made: Any) -> ClientCredentials:
    return ClientCredentials(
        "", made["mode"], made["client_id"], made["client_secret"], made["role"], tuple(made["scopes"])
    )


async def signed_in(http: httpx2.AsyncClient, made: Any) -> Caller:
    caller = Caller(http, credentials_of(made))
    await caller.authenticate()
    return caller


async def token_status(http: httpx2.AsyncClient, made: Any, secret: str | None = None) -> int:
    form = {"client_id": made["client_id"], "client_secret": secret or made["client_secret"]}
    return (await http.post("/v1/oauth/token", data=form | {"grant_type": "client_credentials"})).status_code


class OtherServers:
    """API servers of one installation, on a clock that the test moves."""

    class _Clock:
        """Ahead of the system's clock."""

        def __init__(self) -> None:
            self._system = SystemClock()
            self.ahead_seconds = 0.0

        def now_ms(self) -> int:
            return self._system.now_ms()

        def monotonic(self) -> float:
            return self._system.monotonic() + self.ahead_seconds

    def __init__(self, running: Installation, number: int) -> None:
        self.clock = self._Clock()
        services = dataclasses.replace(running.services, clock=self.clock)
        transports = [httpx2.ASGITransport(app=create_app(services)) for _ in range(number)]
        self.http = [
            httpx2.AsyncClient(transport=transport, base_url="http://api.test") for transport in transports
        ]


async def test_created_client_works_and_its_secret_is_shown_once(
    running: Installation, owner_of: Any
) -> None:
    owner = await owner_of()
    made = await owner.post("/v1/clients", {"role": "user", "name": "Shop", "scopes": ["cards:read"]})
    assert (made["name"], made["role"], made["mode"], made["status"]) == ("Shop", "user", "test", "active")
    assert made["client_id"].startswith("cl_test_")
    shop = await signed_in(running.http, made)
    assert (await shop.get("/v1/cards"))["data"] == []
    assert (await shop.send("GET", "/v1/programs")).status_code == 403
    secret = made.pop("client_secret")
    assert await owner.get(f"/v1/clients/{made['id']}") == made
    listed = (await owner.get("/v1/clients"))["data"]
    assert listed[0] == made
    assert secret not in str(listed)


async def test_repeated_request_returns_the_same_secret(owner_of: Any) -> None:
    owner = await owner_of()
    first = await owner.post("/v1/clients", {"role": "user"}, key="once")
    assert await owner.post("/v1/clients", {"role": "user"}, key="once") == first
    assert len((await owner.get("/v1/clients"))["data"]) == 2


@pytest.mark.parametrize("role", ["user", "admin", "owner"])
async def test_client_without_named_scopes_gets_those_of_its_role(owner_of: Any, role: str) -> None:
    made = await (await owner_of()).post("/v1/clients", {"role": role})
    assert made["scopes"] == list(default_scopes(role))
    assert REVEAL not in made["scopes"]


@pytest.mark.parametrize("role", ["user", "admin"])
async def test_other_roles_cannot_manage_clients(running: Installation, tenant: str, role: str) -> None:
    caller = await running.caller(tenant, role=role, scopes=("clients:read", "clients:write"))
    for method, path in (("POST", "/v1/clients"), ("GET", "/v1/clients")):
        response = await caller.send(method, path, {"role": "user"} if method == "POST" else None)
        assert (response.status_code, response.json()["type"]) == (403, "/problems/role-not-allowed")


@pytest.mark.parametrize(
    ("own", "scopes", "status"),
    [
        (("clients:write", "cards:read"), ["cards:read"], 201),
        (("clients:write", "cards:read"), ["cards:read", "cards:write"], 403),
        (default_scopes("owner"), [REVEAL], 403),
        (("clients:write", REVEAL), [REVEAL], 201),
    ],
)
async def test_scopes_beyond_the_callers_own_are_refused(
    owner_of: Any, own: tuple[str, ...], scopes: list[str], status: int
) -> None:
    owner = await owner_of(scopes=own)
    answer = await owner.post("/v1/clients", {"role": "admin", "scopes": scopes}, status)
    if status == 403:
        assert answer["type"] == "/problems/grant-exceeds-caller"


async def test_token_with_fewer_scopes_gives_no_more_than_it_has(owner_of: Any) -> None:
    owner = await owner_of()
    await owner.authenticate("clients:write cards:read")
    await owner.post("/v1/clients", {"role": "user", "scopes": ["programs:read"]}, 403)
    assert (await owner.post("/v1/clients", {"role": "user"}))["scopes"] == ["cards:read"]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"role": "root"},
        {"role": "user", "scopes": []},
        {"role": "user", "scopes": ["cards:fly"]},
        {"role": "user", "mode": "live"},
        {"role": "user", "name": ""},
    ],
)
async def test_invalid_client_is_refused_with_pointers(owner_of: Any, body: Any) -> None:
    refused = await (await owner_of()).post("/v1/clients", body, 400)
    assert refused["type"] == "/problems/validation-failed"
    assert all(error["pointer"] for error in refused["errors"])


async def test_revoked_client_is_refused_by_every_server_within_a_second(
    running: Installation, owner_of: Any
) -> None:
    """Two servers have its token in their caches."""
    servers = OtherServers(running, 2)
    here, there = servers.http
    owner = await owner_of()
    owner.http = here
    made = await owner.post("/v1/clients", {"role": "user"})
    token = (await signed_in(here, made)).token
    header = {"Authorization": f"Bearer {token}"}
    for http in servers.http:
        assert (await http.get("/v1/cards", headers=header)).status_code == 200
    revoked = await owner.post(f"/v1/clients/{made['id']}/revoke", None, 200)
    assert (revoked["status"], revoked["revoked_at"] is not None) == ("revoked", True)
    assert await token_status(there, made) == 401
    servers.clock.ahead_seconds += TOKEN_CACHE_SECONDS
    for http in servers.http:
        assert (await http.get("/v1/cards", headers=header)).status_code == 401
    again = await owner.post(f"/v1/clients/{made['id']}/revoke", None, 200)
    assert again == revoked


async def test_rotation_ends_the_old_secret_and_its_tokens(running: Installation, owner_of: Any) -> None:
    servers = OtherServers(running, 2)
    owner = await owner_of()
    made = await owner.post("/v1/clients", {"role": "user"})
    header = {"Authorization": f"Bearer {(await signed_in(running.http, made)).token}"}
    for http in servers.http:
        assert (await http.get("/v1/cards", headers=header)).status_code == 200
    new = await owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 200)
    assert new["client_secret"] != made["client_secret"]
    assert new["previous_secret_expires_at"] is None
    assert await token_status(running.http, made) == 401
    assert await token_status(running.http, new) == 200
    servers.clock.ahead_seconds += TOKEN_CACHE_SECONDS
    for http in servers.http:
        assert (await http.get("/v1/cards", headers=header)).status_code == 401


async def test_rotation_with_overlap_keeps_the_old_secret_for_that_time(
    running: Installation, owner_of: Any
) -> None:
    owner = await owner_of()
    made = await owner.post("/v1/clients", {"role": "user"})
    caller = await signed_in(running.http, made)
    path = f"/v1/clients/{made['id']}/rotate-secret"
    new = await owner.post(path, {"overlap_hours": 24}, 200)
    assert new["previous_secret_expires_at"] is not None
    assert [await token_status(running.http, each) for each in (made, new)] == [200, 200]
    await caller.get("/v1/cards")
    await running.services.pool.execute(
        "UPDATE clients SET previous_secret_expires_at = now() WHERE id = $1", made["id"]
    )
    assert [await token_status(running.http, each) for each in (made, new)] == [401, 200]
    newest = await owner.post(path, {"overlap_hours": 1}, 200)
    assert await token_status(running.http, new) == 200
    await owner.post(path, {"overlap_hours": 1}, 200)
    assert [await token_status(running.http, each) for each in (new, newest)] == [401, 200]
    assert (await owner.post(path, {"overlap_hours": 169}, 400))["errors"][0]["pointer"] == "/overlap_hours"


async def test_token_grant_that_is_under_way_does_not_outlive_a_rotation(
    running: Installation, owner_of: Any
) -> None:
    """Grants and rotations in parallel: a token of the old secret works after none of them."""
    owner = await owner_of()
    made = await owner.post("/v1/clients", {"role": "user"})
    form = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
    form |= {"grant_type": "client_credentials"}

    async def grant() -> str | None:
        response = await running.http.post("/v1/oauth/token", data=form)
        token: str | None = response.json().get("access_token")
        return token

    *tokens, _ = await asyncio.gather(
        *(grant() for _ in range(8)), owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 200)
    )
    fresh = OtherServers(running, 1).http[0]
    for token in filter(None, tokens):
        header = {"Authorization": f"Bearer {token}"}
        assert (await fresh.get("/v1/cards", headers=header)).status_code == 401


async def test_revoked_client_gets_no_new_secret(owner_of: Any) -> None:
    owner = await owner_of()
    made = await owner.post("/v1/clients", {"role": "user"})
    await owner.post(f"/v1/clients/{made['id']}/revoke", None, 200)
    refused = await owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 409)
    assert refused["type"] == "/problems/client-revoked"
    statuses = {status: await owner.get(f"/v1/clients?status={status}") for status in ("active", "revoked")}
    assert [each["id"] for each in statuses["revoked"]["data"]] == [made["id"]]
    assert made["id"] not in {each["id"] for each in statuses["active"]["data"]}


async def test_last_owner_cannot_be_revoked(running: Installation, owner_of: Any, tenant: str) -> None:
    owner = await owner_of()
    (own,) = (await owner.get("/v1/clients"))["data"]
    # Neither an owner of the other mode nor an admin takes its place.
    await running.caller(tenant, mode="live", role="owner")
    await owner.post("/v1/clients", {"role": "admin"})
    refused = await owner.post(f"/v1/clients/{own['id']}/revoke", None, 409)
    assert refused["type"] == "/problems/last-owner"
    other = await owner.post("/v1/clients", {"role": "owner"})
    await owner.post(f"/v1/clients/{own['id']}/revoke", None, 200)
    successor = await signed_in(running.http, other)
    assert (await successor.post(f"/v1/clients/{other['id']}/revoke", None, 409))["status"] == 409


async def test_two_owners_cannot_revoke_each_other(running: Installation, owner_of: Any) -> None:
    first = await owner_of()
    made = await first.post("/v1/clients", {"role": "owner"})
    (mine,) = (each for each in (await first.get("/v1/clients"))["data"] if each["id"] != made["id"])
    second = await signed_in(running.http, made)
    answers = await asyncio.gather(
        first.send("POST", f"/v1/clients/{made['id']}/revoke"),
        second.send("POST", f"/v1/clients/{mine['id']}/revoke"),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 401]


async def test_client_revoked_a_moment_ago_creates_no_client(running: Installation, owner_of: Any) -> None:
    """Its token may still be in a cache."""
    owner, other = await owner_of(), await owner_of()
    await other.get("/v1/clients")
    await running.services.pool.execute(
        "UPDATE clients SET revoked_at = now() WHERE client_id = $1", other.credentials.client_id
    )
    assert (await other.send("POST", "/v1/clients", {"role": "owner"})).status_code == 401
    assert len((await owner.get("/v1/clients"))["data"]) == 2


async def test_number_of_active_clients_is_limited(running: Installation, owner_of: Any) -> None:
    owner = await owner_of()
    (own,) = (await owner.get("/v1/clients"))["data"]
    await running.services.pool.execute(
        "INSERT INTO clients (id, tenant_id, client_id, secret_digest, mode, role, scopes)"
        " SELECT gen_random_uuid(), tenant_id, client_id || n, '', mode, 'user', '{}'"
        " FROM clients, generate_series(1, $2) AS n WHERE id = $1::uuid",
        own["id"],
        CLIENTS_MAX - 2,
    )
    made = await owner.post("/v1/clients", {"role": "user"})
    refused = await owner.post("/v1/clients", {"role": "user"}, 409)
    assert refused["type"] == "/problems/client-limit"
    await owner.post(f"/v1/clients/{made['id']}/revoke", None, 200)
    await owner.post("/v1/clients", {"role": "user"})


async def test_clients_of_others_do_not_exist(running: Installation, owner_of: Any, tenant: str) -> None:
    owner = await owner_of()
    rival = await running.caller(f"{tenant}-rival", role="owner")
    live = await running.caller(tenant, mode="live", role="owner")
    made = await rival.post("/v1/clients", {"role": "user"})
    in_live = await live.post("/v1/clients", {"role": "user"})
    for foreign in (made["id"], in_live["id"]):
        await owner.get(f"/v1/clients/{foreign}", 404)
        for act in ("revoke", "rotate-secret"):
            assert (await owner.send("POST", f"/v1/clients/{foreign}/{act}", {})).status_code == 404
        assert (await owner.send("GET", f"/v1/clients?starting_after={foreign}")).status_code == 400
    assert len((await owner.get("/v1/clients"))["data"]) == 1
    assert in_live["client_id"].startswith("cl_live_")


async def test_admins_keep_their_rights_beside_owners(owner_of: Any) -> None:
    """An owner may do what an admin may."""
    owner = await owner_of()
    card = await owner.funded_card()
    money = {"balance": {"amount": "5.00", "currency": "EUR"}}
    assert (await owner.send("PUT", f"/v1/cards/{card['id']}/declared-balance", money)).status_code == 200
