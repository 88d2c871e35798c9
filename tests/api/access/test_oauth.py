"""The token endpoint conforms to RFC 6749; Authlib is the independent client."""

from __future__ import annotations

import asyncio
import base64
from ipaddress import ip_network
from typing import Any
from uuid import uuid4

import asyncpg
import httpx2
import pytest
from authlib.integrations.requests_client import OAuth2Session  # type: ignore[import-untyped]

from engine.scopes import default_scopes
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

TOKEN = "/v1/oauth/token"


def credentials_of(caller: Caller) -> dict[str, str]:
    return {"client_id": caller.credentials.client_id, "client_secret": caller.credentials.client_secret}


def basic(client_id: str, secret: str) -> dict[str, str]:
    return {"Authorization": "Basic " + base64.b64encode(f"{client_id}:{secret}".encode()).decode()}


def refused(response: httpx2.Response, status: int, error: str) -> None:
    body = response.json()
    assert (response.status_code, body["status"], body["error"]) == (status, status, error), body
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"


async def test_token_is_issued_for_form_json_and_basic_credentials(acme: Caller) -> None:
    form = {"grant_type": "client_credentials"}
    answers = [
        await acme.http.post(TOKEN, data=form | credentials_of(acme)),
        await acme.http.post(TOKEN, json=form | credentials_of(acme)),
        await acme.http.post(TOKEN, data=form, headers=basic(**_swapped(acme))),
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert answer.headers["cache-control"] == "no-store"
        body = answer.json()
        assert (body["token_type"], body["expires_in"]) == ("Bearer", 3600)
        assert body["scope"].split(" ") == list(default_scopes("admin"))
        assert "refresh_token" not in body
    assert len({answer.json()["access_token"] for answer in answers}) == 3


def _swapped(caller: Caller) -> dict[str, str]:
    return {"client_id": caller.credentials.client_id, "secret": caller.credentials.client_secret}


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_authlib_client_gets_and_uses_a_token(running: Installation, acme: Caller, method: str) -> None:
    def journey(base_url: str) -> tuple[dict[str, Any], int]:
        with OAuth2Session(
            acme.credentials.client_id,
            acme.credentials.client_secret,
            scope="cards:read programs:read",
            token_endpoint_auth_method=method,
        ) as session:
            token = session.fetch_token(base_url + TOKEN, grant_type="client_credentials")
            return dict(token), session.get(base_url + "/v1/cards").status_code

    async with served(running.app) as base_url:
        token, status = await asyncio.to_thread(journey, base_url)
    assert token["scope"] == "programs:read cards:read"
    assert status == 200


@pytest.mark.parametrize(
    ("sent", "status", "error"),
    [
        ({"grant_type": None}, 400, "invalid_request"),
        ({"grant_type": ""}, 400, "invalid_request"),
        ({"grant_type": "password"}, 400, "unsupported_grant_type"),
        ({"scope": "cards:read cards:fly"}, 400, "invalid_scope"),
        ({"scope": "cards:read  cards:write"}, 400, "invalid_scope"),
        ({"client_id": None}, 401, "invalid_client"),
        ({"client_secret": None}, 401, "invalid_client"),
        ({"client_secret": "sk_wrong"}, 401, "invalid_client"),
        ({"client_id": "cl_test_unknown"}, 401, "invalid_client"),
    ],
)
async def test_refused_token_request_returns_the_oauth_error_code(
    acme: Caller, sent: dict[str, str | None], status: int, error: str
) -> None:
    form = {"grant_type": "client_credentials", **credentials_of(acme)} | sent
    response = await acme.http.post(
        TOKEN, data={name: value for name, value in form.items() if value is not None}
    )
    refused(response, status, error)
    if status == 401:
        assert response.headers["www-authenticate"].startswith("Basic")


async def test_scope_not_granted_to_the_client_is_refused(running: Installation, tenant: str) -> None:
    reader = await running.caller(tenant, scopes=("cards:read",))
    form = {"grant_type": "client_credentials", **credentials_of(reader)}
    refused(await reader.http.post(TOKEN, data=form | {"scope": "cards:write"}), 400, "invalid_scope")


async def test_malformed_token_request_is_refused(acme: Caller) -> None:
    post = acme.http.post
    form_type = {"Content-Type": "application/x-www-form-urlencoded"}
    twice = "grant_type=client_credentials&client_id=a&client_id=b&client_secret=c"
    refused(await post(TOKEN, content=twice, headers=form_type), 400, "invalid_request")
    both = {"grant_type": "client_credentials", **credentials_of(acme)}
    refused(await post(TOKEN, data=both, headers=basic(**_swapped(acme))), 400, "invalid_request")
    refused(await post(TOKEN, json=["client_credentials"]), 400, "invalid_request")
    refused(await post(TOKEN, json={"grant_type": 1}), 400, "invalid_request")
    for header in ("Basic !!!", "Basic", "Bearer abc", "Basic " + base64.b64encode(b"nocolon").decode()):
        answer = await post(
            TOKEN, data={"grant_type": "client_credentials"}, headers={"Authorization": header}
        )
        refused(answer, 401, "invalid_client")
    nul = await post(
        TOKEN, content="grant_type=client_credentials&client_id=%00&client_secret=x", headers=form_type
    )
    refused(nul, 400, "invalid_request")
    assert (
        await post(TOKEN, json={"client_id": "a"}, headers={"Content-Type": "text/xml"})
    ).status_code == 415
    assert (await post(TOKEN, content=b"{", headers={"Content-Type": "application/json"})).status_code == 400


OF_CLIENT = "client IN (SELECT id FROM clients WHERE client_id = $1)"


async def test_token_that_a_wrong_clock_gave_too_long_a_life_is_refused(
    running: Installation, acme: Caller
) -> None:
    extend = f"UPDATE access_tokens SET expires_at = now() + interval '400 days' WHERE {OF_CLIENT}"
    await running.services.pool.execute(extend, acme.credentials.client_id)
    assert (await acme.send("GET", "/v1/cards")).status_code == 401


async def test_revoked_token_is_refused_within_two_seconds(running: Installation, acme: Caller) -> None:
    await acme.get("/v1/cards")
    revoke = f"UPDATE access_tokens SET revoked_at = now() WHERE {OF_CLIENT}"
    await running.services.pool.execute(revoke, acme.credentials.client_id)
    deadline = asyncio.get_running_loop().time() + 1.0
    while (await acme.send("GET", "/v1/cards")).status_code == 200:
        assert asyncio.get_running_loop().time() < deadline + 1.0
        await asyncio.sleep(0.05)


async def test_revoked_client_gets_no_token(running: Installation, acme: Caller) -> None:
    revoke = "UPDATE clients SET revoked_at = now() WHERE client_id = $1"
    await running.services.pool.execute(revoke, acme.credentials.client_id)
    form = {"grant_type": "client_credentials", **credentials_of(acme)}
    refused(await acme.http.post(TOKEN, data=form), 401, "invalid_client")


async def test_correct_secret_works_while_failed_attempts_are_limited(
    running: Installation, acme: Caller
) -> None:
    wrong = {"grant_type": "client_credentials", **credentials_of(acme), "client_secret": "x"}
    answers = [await acme.http.post(TOKEN, data=wrong) for _ in range(35)]
    assert [answer.status_code for answer in answers] == [401] * 30 + [429] * 5
    for _ in range(35):
        await acme.authenticate()


async def failures(http: httpx2.AsyncClient, forwarded_for: str, number: int) -> list[int]:
    """Statuses of ``number`` token requests through a trusted proxy, each with another unknown client id."""
    return [
        (
            await http.post(
                TOKEN,
                data={"grant_type": "client_credentials", "client_id": f"cl_{uuid4()}", "client_secret": "x"},
                headers={"X-Forwarded-For": forwarded_for},
            )
        ).status_code
        for _ in range(number)
    ]


async def test_failed_token_requests_are_limited_by_source_address(
    running: Installation, acme: Caller
) -> None:
    proxies = (ip_network("127.0.0.0/8"),)
    async with running.variant(trusted_proxies=proxies, rate_token_per_minute=1) as http:
        assert await failures(http, "192.0.2.1", 11) == [401] * 10 + [429]
        assert await failures(http, "192.0.2.2", 1) == [401]
        assert await failures(http, "2001:db8::1", 10) == [401] * 10
        assert await failures(http, "2001:db8::2", 1) == [429]
        acme.http = http
        await acme.authenticate()


async def test_failed_token_requests_are_limited_by_client_id(acme: Caller) -> None:
    form = {"grant_type": "client_credentials", "client_id": "cl_test_busy", "client_secret": "x"}
    answers = [await acme.http.post(TOKEN, data=form) for _ in range(31)]
    assert [answer.status_code for answer in answers] == [401] * 30 + [429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    assert answers[-1].headers["cache-control"] == "no-store"
    # The limit does not affect another client.
    await acme.authenticate()


async def test_tokens_and_secrets_are_stored_as_digests(running: Installation, acme: Caller) -> None:
    connection: asyncpg.Pool[asyncpg.Record] = running.services.pool
    rows = await connection.fetch("SELECT token_digest FROM access_tokens")
    assert all(acme.token.encode() not in row["token_digest"] for row in rows)
    clients = await connection.fetch("SELECT secret_digest FROM clients")
    assert all(acme.credentials.client_secret.encode() not in row["secret_digest"] for row in clients)


async def test_issuing_a_token_deletes_expired_ones(running: Installation, acme: Caller) -> None:
    age = f"UPDATE access_tokens SET expires_at = now() - interval '1 year' WHERE {OF_CLIENT}"
    await running.services.pool.execute(age, acme.credentials.client_id)
    await acme.authenticate()
    left = f"SELECT count(*) FROM access_tokens WHERE {OF_CLIENT}"
    assert await running.services.pool.fetchval(left, acme.credentials.client_id) == 1


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer ", "bearer nonsense", "Basic abc", "Bearer a b", "Bearer \u00e9"]
)
async def test_request_without_a_valid_token_returns_401(acme: Caller, header: str | None) -> None:
    headers = {} if header is None else {b"Authorization": header.encode("latin-1")}
    response = await acme.http.get("/v1/cards", headers=headers)
    assert response.status_code == 401
    assert response.headers["www-authenticate"].startswith("Bearer")
    assert response.json()["type"] == "/problems/unauthorized"


@pytest.mark.parametrize(
    ("content", "media_type", "status"),
    [(b"", None, 415), (b"{", "application/json", 400), (b"[]", "application/json", 400)],
)
async def test_unreadable_token_request_returns_invalid_request(
    running: Installation, content: bytes, media_type: str | None, status: int
) -> None:
    headers = {} if media_type is None else {"Content-Type": media_type}
    response = await running.http.post("/v1/oauth/token", content=content, headers=headers)
    assert (response.status_code, response.json()["error"]) == (status, "invalid_request")
