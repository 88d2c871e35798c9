"""Sign-in through an OpenID Connect provider, against a small real one."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from joserfc import jwt
from joserfc.jwk import OctKey
from structlog.testing import capture_logs

from actors.settings import Settings, SettingsError
from api.app import create_app
from tests.support.api.console.openid_server import CLIENT_ID, CLIENT_SECRET, OpenIdServer, openid_server
from tests.support.api.console.people import PersonOfTest, person
from tests.support.api.console.visitor import BASE_URL, HTML, Visitor, visitor
from tests.support.api.stack import Installation
from tests.support.ops.pages import fence

CALLBACK = f"{BASE_URL}/console/sign-in/openid/callback"


@asynccontextmanager
async def through(
    running: Installation, provider: OpenIdServer, secret: str | None = CLIENT_SECRET
) -> AsyncIterator[Visitor]:
    """A browser at an API server of the installation that knows the provider."""
    provider.redirect_uri = CALLBACK
    settings = running.services.settings.replace(
        oidc_issuer=provider.issuer, oidc_client_id=CLIENT_ID, oidc_client_secret=secret
    )
    app = create_app(dataclasses.replace(running.services, settings=settings))
    async with visitor(running, app=app) as browser:
        yield browser


async def callback_of(browser: Visitor, next_page: str | None = None) -> str:
    """Begin a flow, sign in at the provider, and return the path to which it sends the browser back."""
    query = {} if next_page is None else {"next": next_page}
    begun = await browser.get("/sign-in/openid", 303, **query)
    async with httpx2.AsyncClient() as elsewhere:
        answer = await elsewhere.get(begun.headers["location"])
    assert answer.status_code == 307
    parts = urlsplit(answer.headers["location"])
    return f"{parts.path}?{parts.query}"


async def finished(browser: Visitor, path: str) -> httpx2.Response:
    return await browser.http.get(path, headers=HTML)


def vouch(provider: OpenIdServer, who: PersonOfTest, **claims: Any) -> None:
    provider.person = {"sub": "1", "email": who.email.upper(), "email_verified": True, **claims}


async def test_verified_address_signs_its_user_in(running: Installation, tenant: str) -> None:
    who = await person(running, tenant, secret=b"s" * 20)
    async with openid_server() as provider, through(running, provider) as browser:
        assert 'href="/console/sign-in/openid"' in (await browser.get("/sign-in")).text
        vouch(provider, who)
        path = await callback_of(browser, "/console/users")
        with capture_logs() as lines:
            answer = await finished(browser, path)
        assert (answer.status_code, answer.headers["location"]) == (303, "/console/users")
        assert who.name in (await browser.get("/account")).text
        assert [line["by"] for line in lines if line["event"] == "signed_in"] == ["openid"]
        # The provider's code works once, and so does the flow.
        assert (await finished(browser, path)).status_code == 401


async def test_short_tokens_new_keys_and_public_clients_work(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    async with openid_server() as provider, through(running, provider, None) as browser:
        provider.public = provider.short_tokens = True
        vouch(provider, who)
        for _ in range(2):
            assert (await finished(browser, await callback_of(browser))).status_code == 303
            provider.rotate_key()
            browser.http.cookies.delete("stanchion_console")


REFUSED_CLAIMS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("email_not_verified", {"email_verified": False}),
    ("email_not_verified", {"email": None}),
    ("unknown_user", {"email": "nobody@nowhere.example"}),
    ("id_token", {"iss": "https://evil.test"}),
    ("audience", {"aud": "another-client"}),
    ("audience", {"aud": [CLIENT_ID, "another-client"]}),
    ("audience", {"azp": "another-client"}),
    ("id_token", {"nonce": "of another flow"}),
    ("id_token", {"exp": 1_000_000_000}),
    ("id_token", {"iat": int(time.time()) + 3_600}),
)


@pytest.mark.parametrize(("reason", "claims"), REFUSED_CLAIMS)
async def test_unfit_tokens_are_refused(
    running: Installation, tenant: str, reason: str, claims: dict[str, Any]
) -> None:
    who = await person(running, tenant)
    async with openid_server() as provider, through(running, provider) as browser:
        vouch(provider, who)
        provider.claims = claims
        path = await callback_of(browser)
        with capture_logs() as lines:
            answer = await finished(browser, path)
        assert (answer.status_code, "did not identify" in answer.text) == (401, True)
        assert "stanchion_console" not in browser.http.cookies
        assert [line["reason"] for line in lines if line["event"] == "sign_in_refused"] == [reason]


async def test_tokens_of_other_keys_or_without_signature_are_refused(
    running: Installation, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    who = await person(running, tenant)
    async with openid_server() as provider, through(running, provider) as browser:
        vouch(provider, who)
        encode = jwt.encode

        def forged(header: dict[str, Any], claims: dict[str, Any], _key: Any) -> str:
            return encode({"alg": "HS256", "kid": header["kid"]}, claims, OctKey.import_key("x" * 32))

        path = await callback_of(browser)
        monkeypatch.setattr("tests.support.api.console.openid_server.jwt.encode", forged)
        assert (await finished(browser, path)).status_code == 401


async def test_answer_must_belong_to_the_flow_of_this_browser(running: Installation, tenant: str) -> None:
    who = await person(running, tenant)
    async with openid_server() as provider, through(running, provider) as browser:
        vouch(provider, who)
        path = await callback_of(browser)
        async with through(running, provider) as other:
            assert (await finished(other, path)).status_code == 401
            await callback_of(other)
            assert (await finished(other, path)).status_code == 401
        for broken in ("", "?error=access_denied&state=x", path.partition("&iss=")[0] + "&iss=https://evil"):
            where = broken if broken.startswith("/") else f"/console/sign-in/openid/callback{broken}"
            assert (await finished(browser, where)).status_code == 401
        assert "stanchion_console" not in browser.http.cookies


async def test_provider_that_does_not_answer_is_reported(running: Installation) -> None:
    async with openid_server() as provider:
        address = provider.issuer
    provider.issuer = address
    async with through(running, provider) as browser:
        await browser.get("/sign-in/openid", 401)


def test_settings_of_the_page_are_accepted() -> None:
    printed = fence("ops/docs/CONSOLE.md", "OpenID Connect", "sh")
    given = dict(re.findall(r"^export STANCHION_(\w+)=(\S+)", printed, re.MULTILINE))
    settings = Settings.load(**{name.lower(): value for name, value in given.items()})
    assert (settings.oidc_issuer, settings.oidc_client_id) == ("https://id.example.com", "stanchion")
    passed_on = Settings.from_json(settings.to_json())
    assert passed_on.oidc_client_secret == settings.oidc_client_secret
    for broken in ({"oidc_issuer": "http://id.example.com"}, {"oidc_client_id": None}):
        with pytest.raises(SettingsError):
            settings.replace(**broken)


async def test_without_a_provider_there_is_no_such_sign_in(running: Installation) -> None:
    async with visitor(running) as browser:
        assert "openid" not in (await browser.get("/sign-in")).text
        for path in ("/sign-in/openid", "/sign-in/openid/callback"):
            assert (await browser.http.get(f"/console{path}")).status_code == 404
