"""The console over HTTP: sign-in, sessions, panels, isolation of tenants, and the content policy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http.cookies import SimpleCookie

import httpx2
import pytest
from structlog.testing import capture_logs

from api.app import create_app
from api.console import figures
from api.console.sessions import COOKIE, SESSION_SECONDS
from engine.ids import is_id
from engine.limits import CONSOLE_SIMULATIONS_MAX
from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

HERE = {"Sec-Fetch-Site": "same-origin"}
PAGES = ("/console", "/console/panels", "/console/figures", "/console/cards?id=x", "/console/audit-log")


@asynccontextmanager
async def visitor(running: Installation) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: an HTTP client with its own cookie jar."""
    transport = httpx2.ASGITransport(app=running.app)
    async with httpx2.AsyncClient(transport=transport, base_url="http://console.test") as http:
        yield http


def form(caller: Caller) -> dict[str, str]:
    credentials = caller.credentials
    return {"client_id": credentials.client_id, "client_secret": credentials.client_secret}


async def sign_in(http: httpx2.AsyncClient, caller: Caller) -> None:
    answer = await http.post("/console/sign-in", data=form(caller), headers=HERE)
    assert (answer.status_code, answer.headers["location"]) == (303, "/console"), answer.text


async def test_pages_without_a_session_require_a_sign_in(running: Installation) -> None:
    async with visitor(running) as http:
        assert "Sign in" in (await http.get("/console")).text
        for page in PAGES[1:]:
            answer = await http.get(page)
            assert (answer.status_code, answer.content) == (401, b"")
            assert answer.headers["hx-redirect"] == "/console"


async def test_session_cookie_is_short_lived_and_limited_to_the_console(
    running: Installation, acme: Caller
) -> None:
    async with visitor(running) as http:
        answer = await http.post("/console/sign-in", data=form(acme), headers=HERE)
        cookie = SimpleCookie(answer.headers["set-cookie"])[COOKIE]
        assert cookie["httponly"] is True
        assert cookie["samesite"].lower() == "strict"
        assert cookie["path"] == "/console"
        assert int(cookie["max-age"]) == SESSION_SECONDS
        assert not cookie["secure"]
        # The API accepts the session neither as a cookie nor as a token.
        for name, value in (
            ("Cookie", f"{COOKIE}={cookie.value}"),
            ("Authorization", f"Bearer {cookie.value}"),
        ):
            assert (await http.get("/v1/cards", headers={name: value})).status_code == 401
    transport = httpx2.ASGITransport(app=running.app)
    async with httpx2.AsyncClient(transport=transport, base_url="https://console.test") as https:
        answer = await https.post("/console/sign-in", data=form(acme), headers=HERE)
        assert SimpleCookie(answer.headers["set-cookie"])[COOKIE]["secure"] is True


@pytest.mark.parametrize(
    ("headers", "accepted"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, True),
        ({"Sec-Fetch-Site": "same-site"}, False),
        ({"Sec-Fetch-Site": "cross-site"}, False),
        ({"Sec-Fetch-Site": "none"}, False),
        ({"Origin": "http://console.test"}, True),
        ({"Origin": "http://evil.test"}, False),
        ({"Origin": "null"}, False),
        ({"Origin": "http://["}, False),
        ({}, False),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "http://console.test"}, False),
    ],
)
async def test_form_from_another_site_is_refused(
    running: Installation, acme: Caller, headers: dict[str, str], accepted: bool
) -> None:
    async with visitor(running) as http:
        answer = await http.post("/console/sign-in", data=form(acme), headers=headers)
        assert (answer.status_code == 303) is accepted
        assert ("set-cookie" in answer.headers) is accepted
        assert accepted or answer.status_code == 403
    async with visitor(running) as http:
        await sign_in(http, acme)
        answer = await http.post("/console/sign-out", headers=headers)
        assert (await http.get("/console/panels")).status_code == (401 if accepted else 200)


async def test_wrong_credentials_return_401_without_the_secret(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http:
        wrong = form(acme) | {"client_secret": "not-the-secret"}
        for data in (wrong, {"client_id": "nobody", "client_secret": "x"}, {}):
            answer = await http.post("/console/sign-in", data=data, headers=HERE)
            assert answer.status_code == 401
            assert "not accepted" in answer.text
            assert "not-the-secret" not in answer.text
            assert "set-cookie" not in answer.headers
        answer = await http.post("/console/sign-in", content=b"\xff\xfe=1", headers=HERE)
        assert answer.status_code == 401


async def test_sign_ins_and_sign_outs_are_logged_without_secrets(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http:
        with capture_logs() as lines:
            await http.post("/console/sign-in", data=form(acme) | {"client_secret": "guess"}, headers=HERE)
            await sign_in(http, acme)
            await http.post("/console/sign-out", headers=HERE)
    known = [line for line in lines if line["event"].startswith("sign")]
    assert [line["event"] for line in known] == ["sign_in_refused", "signed_in", "signed_out"]
    assert known[1]["client"] == known[2]["client"]
    assert is_id(known[1]["client"])
    assert "guess" not in str(lines)


async def test_failed_sign_ins_are_rate_limited(running: Installation, acme: Caller) -> None:
    variant = create_app(running.services)
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(app=variant), base_url="http://console.test"
    ) as http:
        limit = running.services.settings.rate_token_per_minute
        statuses = [
            (
                await http.post("/console/sign-in", data=form(acme) | {"client_secret": "x"}, headers=HERE)
            ).status_code
            for _ in range(limit + 1)
        ]
    assert statuses[-1] == 429


async def test_sign_out_ends_the_session_for_a_copied_cookie(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http, visitor(running) as thief:
        await sign_in(http, acme)
        token = http.cookies[COOKIE]
        thief.cookies.set(COOKIE, token, domain="console.test", path="/console")
        assert (await http.post("/console/sign-out", headers=HERE)).status_code == 303
        assert COOKIE not in http.cookies
        assert (await thief.get("/console/panels")).status_code == 401


OF_CLIENT = "client = (SELECT id FROM clients WHERE client_id = $1)"


async def test_session_ends_after_twelve_hours_or_when_its_client_is_revoked(
    running: Installation, acme: Caller
) -> None:
    pool, client_id = running.services.pool, acme.credentials.client_id
    async with visitor(running) as http:
        await sign_in(http, acme)
        row = await pool.fetchrow(
            f"SELECT id_digest, expires_at - created_at AS age FROM console_sessions WHERE {OF_CLIENT}",
            client_id,
        )
        assert row is not None
        assert row["age"].total_seconds() == 12 * 3600
        assert http.cookies[COOKIE].encode() not in row["id_digest"]
        expire = f"UPDATE console_sessions SET expires_at = now() WHERE {OF_CLIENT}"
        await pool.execute(expire, client_id)
        assert (await http.get("/console/panels")).status_code == 401
        await sign_in(http, acme)
        assert (await http.get("/console/panels")).status_code == 200
        await pool.execute("UPDATE clients SET revoked_at = now() WHERE client_id = $1", client_id)
        assert (await http.get("/console/panels")).status_code == 401


@pytest.mark.parametrize("content", [b"client_id=%00&client_secret=x", b"client_id=a&client_secret=%00"])
async def test_nul_in_credentials_returns_401(running: Installation, content: bytes) -> None:
    async with visitor(running) as http:
        answer = await http.post("/console/sign-in", content=content, headers=HERE)
        assert answer.status_code == 401


async def test_audit_log_shows_acts_with_the_names_of_clients(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    made = await owner.post("/v1/clients", {"role": "admin", "name": "Back <office>"})
    card = await owner.funded_card()
    await owner.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    async with visitor(running) as http:
        secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
        answer = await http.post("/console/sign-in", data=secret, headers=HERE)
        assert answer.status_code == 303
        page = (await http.get("/console/audit-log")).text
        assert "sign_in" in page
        assert "client Back &lt;office&gt;" in page
        assert f"card {card['id']}" in page
        assert "<td>state</td><td>active</td><td>suspended</td>" in page
        assert made["client_secret"] not in page
        await http.post("/console/sign-out", headers=HERE)
    acts = (await owner.get(f"/v1/audit-log?object_id={made['id']}"))["data"]
    assert [each["act"] for each in acts] == ["sign_out", "sign_in", "create_client"]
    assert {each["actor"]["id"] for each in acts[:2]} == {made["id"]}
    user = await running.caller(tenant, role="user")
    async with visitor(running) as http:
        await sign_in(http, user)
        page = (await http.get("/console/audit-log")).text
        assert "lacks the scope audit:read or the role admin" in page
        assert card["id"] not in page


async def test_rotation_of_a_secret_ends_the_sessions_of_the_console(
    running: Installation, tenant: str
) -> None:
    owner = await running.caller(tenant, role="owner")
    made = await owner.post("/v1/clients", {"role": "user"})
    async with visitor(running) as http:
        secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
        await http.post("/console/sign-in", data=secret, headers=HERE)
        assert (await http.get("/console/panels")).status_code == 200
        await owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 200)
        assert (await http.get("/console/panels")).status_code == 401


async def test_cookie_is_secure_behind_a_trusted_proxy_with_tls(running: Installation, acme: Caller) -> None:
    over_tls = HERE | {"X-Forwarded-Proto": "https"}
    async with running.variant(trusted_proxies=("127.0.0.0/8",)) as http:
        for headers, secure in ((over_tls, True), (HERE, "")):
            answer = await http.post("/console/sign-in", data=form(acme), headers=headers)
            assert SimpleCookie(answer.headers["set-cookie"])[COOKIE]["secure"] == secure


async def test_pages_load_resources_from_their_own_origin_only(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http:
        pages = [await http.get("/console")]
        await sign_in(http, acme)
        pages += [await http.get(page) for page in PAGES]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert not re.search(r"(src|href)=\"(https?:)?//|<script>|style=\"| on\w+=", page.text)
        for asset in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', pages[0].text):
            answer = await http.get(asset)
            assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
        assert (await http.get("/console/static/VENDORED.md")).status_code == 404


async def test_unreachable_database_returns_503(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visitor(running) as http:
        await sign_in(http, acme)

        async def away(*_arguments: object) -> None:
            raise ConnectionRefusedError

        monkeypatch.setattr("api.console.figures.decisions", away)
        answer = await http.get("/console/panels")
        assert answer.status_code == 503
        assert "does not answer" in answer.text
