"""Signing in to the console: users with password, one-time code and links; API clients in test mode."""

from __future__ import annotations

from http.cookies import SimpleCookie
from typing import Any

import httpx2
import pytest
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id
from structlog.testing import capture_logs

from api.console.sessions import COOKIE, SESSION_SECONDS
from api.users.links import create_link
from api.users.passwords import is_current
from engine.ids import is_id
from engine.limits import ONE_TIME_CODE_FAILURES_MAX
from tests.support.api.console.people import PASSWORD, PersonOfTest, person
from tests.support.api.console.visitor import HERE, HTML, visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

SECRET = b"12345678901234567890"
OF_CLIENT = "client = (SELECT id FROM clients WHERE client_id = $1)"


def form(caller: Caller) -> dict[str, str]:
    credentials = caller.credentials
    return {"client_id": credentials.client_id, "client_secret": credentials.client_secret}


def as_user(who: PersonOfTest, password: str = PASSWORD) -> dict[str, str]:
    return {"email": who.email, "password": password}


async def link_of(running: Installation, who: PersonOfTest, purpose: Any) -> str:
    """The path of a new link below the console."""
    async with running.services.pool.acquire() as connection:
        link = await create_link(connection, running.services.vault, who.id, purpose)
    return link.path.removeprefix("/console")


async def test_pages_without_a_session_lead_to_the_sign_in_and_back(
    running: Installation, tenant: str
) -> None:
    who = await person(running, tenant)
    async with visitor(running) as browser:
        answer = await browser.get("/users?status=active", 303)
        assert answer.headers["location"] == "/console/sign-in?next=%2Fconsole%2Fusers%3Fstatus%3Dactive"
        page = await browser.follow(answer)
        assert 'action="/console/sign-in?next=%2Fconsole%2Fusers%3Fstatus%3Dactive"' in page.text
        answer = await browser.http.post(answer.headers["location"], data=as_user(who), headers=HERE)
        assert answer.headers["location"] == "/console/users?status=active"
        await browser.follow(answer)
        assert (await browser.get("/sign-in", 303)).headers["location"] == "/console"
    async with visitor(running) as browser:
        for headers in ({"Accept": "*/*"}, HTML | {"HX-Request": "true"}):
            answer = await browser.http.get("/console/users", headers=headers)
            assert (answer.status_code, answer.headers["hx-redirect"]) == (401, "/console/sign-in")


async def test_password_of_an_earlier_release_is_hashed_again(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    weak = Argon2id(salt=b"s" * 16, length=32, iterations=1, lanes=1, memory_cost=8_192)
    stored = weak.derive_phc_encoded(PASSWORD.encode())
    pool, find = running.services.pool, "SELECT password_hash FROM users WHERE id = $1"
    await pool.execute("UPDATE users SET password_hash = $2 WHERE id = $1", who.id, stored)
    async with visitor(running, who):
        renewed = await pool.fetchval(find, who.id)
        assert is_current(renewed)
    async with visitor(running, who):
        assert await pool.fetchval(find, who.id) == renewed


@pytest.mark.parametrize("wanted", ["https://evil.test", "//evil.test", "/v1/cards", "/console\\@evil.test"])
async def test_sign_in_leads_to_no_other_site(running: Installation, tenant: str, wanted: str) -> None:
    who = await person(running, tenant)
    async with visitor(running) as browser:
        answer = await browser.http.post(
            "/console/sign-in", params={"next": wanted}, data=as_user(who), headers=HERE
        )
        assert (answer.status_code, answer.headers["location"]) == (303, "/console")


async def test_session_cookie_is_short_lived_and_limited_to_the_console(
    running: Installation, acme: Caller
) -> None:
    async with visitor(running) as browser:
        answer = await browser.http.post("/console/sign-in", data=form(acme), headers=HERE)
        cookie = SimpleCookie(answer.headers["set-cookie"])[COOKIE]
        assert cookie["httponly"] is True
        assert cookie["samesite"].lower() == "lax"
        assert cookie["path"] == "/console"
        assert int(cookie["max-age"]) == SESSION_SECONDS
        assert not cookie["secure"]
        # The API accepts the session neither as a cookie nor as a token.
        for name, value in (
            ("Cookie", f"{COOKIE}={cookie.value}"),
            ("Authorization", f"Bearer {cookie.value}"),
        ):
            assert (await browser.http.get("/v1/cards", headers={name: value})).status_code == 401
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
    async with visitor(running) as browser:
        answer = await browser.http.post("/console/sign-in", data=form(acme), headers=headers)
        assert (answer.status_code == 303) is accepted
        assert ("set-cookie" in answer.headers) is accepted
        assert accepted or answer.status_code == 403
    async with visitor(running, acme) as browser:
        data = {"csrf": browser.csrf, "zone": "Europe/Berlin"}
        answer = await browser.http.post("/console/account/zone", data=data, headers=headers)
        assert answer.status_code == (303 if accepted else 403)
        answer = await browser.http.post("/console/sign-out", data=data, headers=headers)
        await browser.get("/account", 303 if accepted else 200)


async def test_form_without_the_token_of_its_session_is_refused(
    running: Installation, acme: Caller, tenant: str
) -> None:
    async with visitor(running, acme) as browser, visitor(running, await person(running, tenant)) as other:
        for csrf in ("", "x", other.csrf, "é"):
            answer = await browser.post("/account/zone", {"csrf": csrf, "zone": "Europe/Berlin"}, 403)
            assert "does not belong to this session" in answer.text
            await browser.post("/sign-out", {"csrf": csrf}, 403)
        assert "UTC" in (await browser.get("/account")).text
        # Scripts send the token as a header.
        fields = {"csrf": "", "zone": "Europe/Berlin"}
        await browser.post("/account/zone", fields, headers={"X-CSRF-Token": browser.csrf})


async def test_refused_sign_ins_look_alike_and_repeat_no_value(
    running: Installation, acme: Caller, tenant: str
) -> None:
    known, disabled = await person(running, tenant), await person(running, tenant)
    await running.services.pool.execute("UPDATE users SET disabled_at = now() WHERE id = $1", disabled.id)
    live = await running.caller(tenant, mode="live")
    wrong: tuple[dict[str, str], ...] = (
        as_user(known, "not-the-secret"),
        as_user(disabled),
        {"email": "not-the-secret@nowhere.example", "password": PASSWORD},
        {"email": "a\0b", "password": "\0"},
        {"email": known.email, "password": "x" * 10_000},
        form(acme) | {"client_secret": "not-the-secret"},
        form(live),
        {"client_id": "nobody", "client_secret": "\0"},
        {},
    )
    async with visitor(running) as browser:
        pages = set()
        for data in wrong:
            answer = await browser.http.post("/console/sign-in", data=data, headers=HERE)
            assert answer.status_code == 401
            assert "set-cookie" not in answer.headers
            assert "not-the-secret" not in answer.text
            pages.add(answer.text)
        (page,) = pages
        assert "not accepted" in page
        answer = await browser.http.post("/console/sign-in", content=b"\xff\xfe=1", headers=HERE)
        assert answer.status_code == 401


async def test_sign_ins_and_sign_outs_are_logged_without_secrets(
    running: Installation, acme: Caller, tenant: str
) -> None:
    who = await person(running, tenant)
    async with visitor(running) as browser:
        with capture_logs() as lines:
            for data in (as_user(who, "guess-guess"), form(acme) | {"client_secret": "guess-guess"}):
                await browser.http.post("/console/sign-in", data=data, headers=HERE)
            for each in (who, acme):
                await browser.sign_in(each)
                await browser.post("/sign-out")
    known = [line for line in lines if line["event"].startswith("sign")]
    events = ["sign_in_refused"] * 2 + ["signed_in", "signed_out"] * 2
    assert [line["event"] for line in known] == events
    assert {known[2]["user"], known[3]["user"]} == {who.id}
    assert known[4]["client"] == known[5]["client"]
    assert is_id(known[4]["client"])
    assert "guess-guess" not in str(lines)
    assert PASSWORD not in str(lines)


async def test_failed_sign_ins_are_rate_limited_by_name_and_address(
    running: Installation, acme: Caller, tenant: str
) -> None:
    victim, other = await person(running, tenant), await person(running, tenant)
    limit = 3
    async with running.variant(rate_token_per_minute=limit, trusted_proxies=("127.0.0.0/8",)) as http:

        async def status(data: dict[str, str], address: str) -> int:
            headers = HERE | {"X-Forwarded-For": address}
            return (await http.post("/console/sign-in", data=data, headers=headers)).status_code

        wrong = as_user(victim, "wrong-password")
        assert [await status(wrong, f"192.0.2.{n}") for n in range(limit + 1)] == [401] * limit + [429]
        # A password can be guessed, so beyond the limit the right one is refused, too.
        assert await status(as_user(victim), "192.0.2.99") == 429
        assert await status(as_user(other), "192.0.2.99") == 303
        # One address, many names: ten times as many.
        for number in range(limit * 10):
            assert await status({"email": f"{number}@x.example", "password": "p"}, "198.51.100.1") == 401
        assert await status(as_user(other), "198.51.100.1") == 429
        assert await status(as_user(other), "198.51.100.2") == 303
        # The right secret of a client always works.
        bad = form(acme) | {"client_secret": "x"}
        assert [await status(bad, "203.0.113.1") for _ in range(limit + 1)] == [401] * limit + [429]
        assert await status(form(acme), "203.0.113.1") == 303


async def test_one_time_code_is_asked_after_the_password(running: Installation, tenant: str) -> None:
    who = await person(running, tenant, secret=SECRET)
    async with visitor(running) as browser:
        await browser.sign_in(who)
        # The password alone opens nothing.
        assert "sign-in" in (await browser.get("/account", 303)).headers["location"]
        password_cookie = browser.http.cookies[COOKIE]
        assert "not accepted" in (await browser.post("/sign-in/code", {"code": "000000"}, 401)).text
        await browser.post("/sign-in/code", {"code": who.code(), "csrf": "x"}, 403)
        answer = await browser.post("/sign-in/code", {"code": who.code()})
        assert answer.headers["location"] == "/console"
        assert browser.http.cookies[COOKIE] != password_cookie
        await browser.remember_token()
        await browser.post("/sign-out")
        # A code works once.
        await browser.sign_in(who)
        await browser.post("/sign-in/code", {"code": who.code()}, 401)
        await browser.post("/sign-in/code", {"code": who.code(1)})
    async with visitor(running) as browser:
        assert (await browser.get("/sign-in/code", 303)).headers["location"] == "/console/sign-in"
        assert (await browser.post("/sign-in/code", {"code": "1"})).headers["location"] == "/console/sign-in"


async def test_recovery_code_replaces_one_code_once(running: Installation, tenant: str) -> None:
    codes = ("aaaa-bbbb-cccc-dddd", "eeee-ffff-gggg-hhhh")
    who = await person(running, tenant, secret=SECRET, recovery_codes=codes)
    async with visitor(running) as browser:
        await browser.sign_in(who)
        await browser.post("/sign-in/code", {"code": "AAAA BBBB CCCC DDDD"})
        await browser.sign_in(who)
        await browser.post("/sign-in/code", {"code": codes[0]}, 401)
        await browser.post("/sign-in/code", {"code": codes[1]})


async def test_codes_pause_after_too_many_wrong_ones(running: Installation, tenant: str) -> None:
    who = await person(running, tenant, secret=SECRET)
    async with visitor(running) as browser:
        await browser.sign_in(who)
        for _ in range(ONE_TIME_CODE_FAILURES_MAX):
            await browser.post("/sign-in/code", {"code": "12345"}, 401)
        await browser.post("/sign-in/code", {"code": who.code()}, 401)
        over = "UPDATE users SET codes_after = now() WHERE id = $1"
        await running.services.pool.execute(over, who.id)
        await browser.post("/sign-in/code", {"code": who.code()})


async def test_sign_in_link_works_once_and_not_by_being_opened(running: Installation, tenant: str) -> None:
    who = await person(running, tenant, secret=SECRET)
    path = await link_of(running, who, "sign_in")
    async with visitor(running) as browser:
        for _ in range(2):
            page = await browser.get(path)
            assert who.email in page.text
            assert "set-cookie" not in page.headers
        await browser.http.post(f"/console{path}", headers={"Sec-Fetch-Site": "cross-site"})
        answer = await browser.post(f"{path}?mode=live")
        assert 'class="live" aria-pressed="true"' in (await browser.follow(answer)).text
        await browser.get(path, 404)
        await browser.post(path, status=404)
    for nonsense in ("x", "x" * 100, "%00"):
        async with visitor(running) as browser:
            await browser.get(f"/enter/{nonsense}", 404)


async def test_newer_link_replaces_the_older_and_links_expire(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    older, newer = [await link_of(running, who, "sign_in") for _ in range(2)]
    async with visitor(running) as browser:
        await browser.get(older, 404)
        await browser.get(newer)
        expire = "UPDATE sign_in_links SET expires_at = now() WHERE user_id = $1"
        await running.services.pool.execute(expire, who.id)
        await browser.get(newer, 404)
        await browser.post(newer, status=404)


async def test_invitation_sets_the_password_and_ends_earlier_sessions(
    running: Installation, tenant: str
) -> None:
    who = await person(running, tenant)
    path = await link_of(running, who, "invitation")
    async with visitor(running, who) as earlier, visitor(running) as browser:
        for given, reason in (
            ({"password": "short", "again": "short"}, "at least 12 characters"),
            ({"password": "a long new password", "again": "another one"}, "differ"),
            ({"password": f"{who.email} 1234", "again": f"{who.email} 1234"}, "holds your name"),
            ({}, "at least 12 characters"),
        ):
            assert reason in (await browser.post(path, given, 400)).text
        new = "a long new password"
        await browser.post(path, {"password": new, "again": new})
        assert who.name in (await browser.get("/account")).text
        await earlier.get("/account", 303)
        await browser.get(path, 404)
        for password, status in ((PASSWORD, 401), (new, 303)):
            answer = await browser.http.post("/console/sign-in", data=as_user(who, password), headers=HERE)
            assert answer.status_code == status


async def test_invitation_of_a_user_with_one_time_codes_asks_for_one(
    running: Installation, tenant: str
) -> None:
    who = await person(running, tenant, secret=SECRET)
    path = await link_of(running, who, "invitation")
    new = {"password": "a long new password", "again": "a long new password"}
    async with visitor(running) as browser:
        assert (await browser.post(path, new)).headers["location"] == "/console/sign-in/code"
        await browser.get("/account", 303)


async def test_sign_out_ends_the_session_for_a_copied_cookie(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser, visitor(running) as thief:
        token = browser.http.cookies[COOKIE]
        thief.http.cookies.set(COOKIE, token, domain="console.test", path="/console")
        await thief.get("/account")
        await browser.post("/sign-out")
        assert COOKIE not in browser.http.cookies
        await thief.get("/account", 303)


async def test_session_ends_after_twelve_hours_or_when_its_client_is_revoked(
    running: Installation, acme: Caller
) -> None:
    pool, client_id = running.services.pool, acme.credentials.client_id
    async with visitor(running, acme) as browser:
        row = await pool.fetchrow(
            f"SELECT id_digest, expires_at - created_at AS age FROM console_sessions WHERE {OF_CLIENT}",
            client_id,
        )
        assert row is not None
        assert row["age"].total_seconds() == 12 * 3600
        assert browser.http.cookies[COOKIE].encode() not in row["id_digest"]
        expire = f"UPDATE console_sessions SET expires_at = now() WHERE {OF_CLIENT}"
        await pool.execute(expire, client_id)
        await browser.get("/account", 303)
        await browser.sign_in(acme)
        await pool.execute("UPDATE clients SET revoked_at = now() WHERE client_id = $1", client_id)
        await browser.get("/account", 303)


async def test_rotation_of_a_secret_ends_the_sessions_of_the_console(
    running: Installation, tenant: str
) -> None:
    owner = await running.caller(tenant, role="owner")
    made = await owner.post("/v1/clients", {"role": "user"})
    async with visitor(running) as browser:
        secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
        await browser.http.post("/console/sign-in", data=secret, headers=HERE)
        await browser.get("/account")
        await owner.post(f"/v1/clients/{made['id']}/rotate-secret", None, 200)
        await browser.get("/account", 303)


async def test_cookie_is_secure_behind_a_trusted_proxy_with_tls(running: Installation, acme: Caller) -> None:
    over_tls = HERE | {"X-Forwarded-Proto": "https"}
    async with running.variant(trusted_proxies=("127.0.0.0/8",)) as http:
        for headers, secure in ((over_tls, True), (HERE, "")):
            answer = await http.post("/console/sign-in", data=form(acme), headers=headers)
            assert SimpleCookie(answer.headers["set-cookie"])[COOKIE]["secure"] == secure


async def test_console_works_under_the_prefix_of_a_proxy(
    running: Installation, acme: Caller, tenant: str
) -> None:
    who = await person(running, tenant)
    variants: tuple[tuple[dict[str, Any], dict[str, str], str], ...] = (
        ({"root_path": "/cards"}, {}, "/cards"),
        ({"root_path": "/cards"}, {}, ""),
        ({"trusted_proxies": ("127.0.0.0/8",)}, {"X-Forwarded-Prefix": "/cards"}, ""),
    )
    for settings, headers, left in variants:
        async with running.variant(**settings) as http:
            sent = HERE | HTML | headers
            answer = await http.get(f"{left}/console/users", headers=sent)
            assert answer.headers["location"] == "/cards/console/sign-in?next=%2Fcards%2Fconsole%2Fusers"
            answer = await http.post(f"{left}/console/sign-in", data=as_user(who), headers=sent)
            assert answer.headers["location"] == "/cards/console"
            cookie = SimpleCookie(answer.headers["set-cookie"])[COOKIE]
            assert cookie["path"] == "/cards/console"
            http.cookies.clear()
            page = await http.get(
                f"{left}/console/account", headers=sent | {"Cookie": f"{COOKIE}={cookie.value}"}
            )
            assert page.status_code == 200
            assert 'href="/console' not in page.text
            assert 'action="/cards/console/sign-out"' in page.text
            assert 'href="/cards/console/users"' in page.text
            assert 'href="/cards/console"' in (await http.get(f"{left}/", headers=sent)).text
            refused = await http.get(f"{left}/v1/cards", headers=headers)
            assert refused.json()["type"] == "/cards/problems/unauthorized"
    async with running.variant() as http:
        answer = await http.get("/console/users", headers=HTML | {"X-Forwarded-Prefix": "/evil"})
        assert answer.headers["location"].startswith("/console/sign-in")
