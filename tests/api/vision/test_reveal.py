"""A reveal session from its creation to its one view: answers, headers and the custody log."""

from __future__ import annotations

import asyncio
import dataclasses
import re
from typing import Any

import httpx2
import pytest
import pytest_asyncio

from actors.network.card_secrets import CardSecrets
from api.services import Services
from api.sweepers.custody import sweep
from api.vision.app import create_app
from engine.instant import DAY_MS
from engine.limits import REVEAL_SESSION_SECONDS
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.api.vision.applicant import vision_host
from tests.support.api.vision.holder import show

URL = re.compile(r"http://[^/#]+/reveal/[0-9a-f-]{36}#rvl_[\w-]{43}")


class At:
    """A clock that is ahead of the real one."""

    def __init__(self, services: Services, ahead_ms: int) -> None:
        self._clock, self._ahead_ms = services.clock, ahead_ms

    def now_ms(self) -> int:
        return self._clock.now_ms() + self._ahead_ms

    def monotonic(self) -> float:
        return self._clock.monotonic()


def ahead(services: Services, ahead_ms: int) -> Services:
    return dataclasses.replace(services, clock=At(services, ahead_ms))


@pytest_asyncio.fixture(loop_scope="session")
async def revealing(running: Installation, tenant: str) -> Caller:
    """A client with the scope that no default set has."""
    return await running.caller(tenant, role="user", scopes=("cards:reveal",))


async def open_session(caller: Caller, card: Any, status: int = 201, **fields: Any) -> Any:
    return await caller.post(f"/v1/cards/{card['id']}/reveal-sessions", fields, status)


async def secrets_of(running: Installation, card: Any) -> tuple[str, str]:
    """The number and the CVV2 of a card."""
    sealed = await running.services.pool.fetchval("SELECT sealed FROM pans WHERE card_id = $1", card["id"])
    custody = CardSecrets(running.services.vault)
    pan = custody.open(card["id"], sealed)
    return "".join(pan), custody.cvv2(pan, card["exp_year"], card["exp_month"], card["cvk_generation"])


async def log_of(running: Installation, card: Any) -> list[tuple[str, str, str]]:
    rows = await running.services.pool.fetch(
        "SELECT act, actor, purpose FROM custody_log WHERE card_id = $1 ORDER BY id", card["id"]
    )
    return [tuple(row) for row in rows]


def slug(answer: httpx2.Response) -> str:
    return str(answer.json()["type"].rpartition("/")[2])


@pytest.mark.parametrize("mode", ["test", "live"])
async def test_card_is_shown_once_in_both_modes(running: Installation, tenant: str, mode: str) -> None:
    admin = await running.caller(tenant, mode=mode)
    revealing = await running.caller(tenant, mode=mode, scopes=("cards:reveal",))
    programme = await admin.programme()
    card = await admin.card(await admin.product(programme), await admin.cardholder(programme))
    session = await open_session(revealing, card)
    assert session.keys() == {"url", "expires_at"}
    assert URL.fullmatch(session["url"])
    pan, code = await secrets_of(running, card)
    async with vision_host(running) as http:
        shown = await show(http, session["url"])
        again = await show(http, session["url"])
    assert (shown.status_code, shown.headers["cache-control"]) == (200, "no-store")
    assert shown.headers["content-type"].startswith("text/html")
    assert re.findall(r"<dd[^>]*>([^<]*)</dd>", shown.text) == [
        " ".join(pan[start : start + 4] for start in range(0, 16, 4)),
        f"{card['exp_month']:02d}/{card['exp_year'] % 100:02d}",
        code,
    ]
    assert (again.status_code, slug(again)) == (410, "reveal-session-used")
    client = f"client {revealing.credentials.client_id}"
    assert await log_of(running, card) == [
        ("opened", client, "cardholder_display"),
        ("viewed", "holder at 203.0.113.9", "cardholder_display"),
        ("refused", "holder at 203.0.113.9", "cardholder_display"),
    ]


async def test_scope_is_in_no_default_set(acme: Caller) -> None:
    card = await acme.funded_card()
    refused = await open_session(acme, card, 403)
    assert refused["type"].endswith("/insufficient-scope")
    assert "cards:reveal" not in acme.credentials.scopes


async def test_foreign_card_and_unknown_card_get_the_same_answer(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card()
    stranger = await running.caller("stranger", scopes=("cards:reveal",))
    live = await running.caller(revealing.credentials.name, mode="live", scopes=("cards:reveal",))
    unknown = {"id": running.services.new_id()}
    answers = [await open_session(each, card, 404) for each in (stranger, live)]
    answers.append(await open_session(revealing, unknown, 404))
    assert len({each["detail"] for each in answers}) == 1
    assert await log_of(running, card) == []


async def test_expired_session_is_refused(running: Installation, acme: Caller, revealing: Caller) -> None:
    card = await acme.funded_card()
    session = await open_session(revealing, card)
    later = create_app(ahead(running.services, REVEAL_SESSION_SECONDS * 1000))
    transport = httpx2.ASGITransport(app=later)
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        answer = await show(http, session["url"])
    assert (answer.status_code, slug(answer)) == (410, "reveal-session-expired")
    assert [act for act, _, _ in await log_of(running, card)] == ["opened", "refused"]


async def test_card_that_has_ended_is_not_shown(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card()
    session = await open_session(revealing, card)
    await acme.patch(f"/v1/cards/{card['id']}", {"state": "stolen"})
    refused = await open_session(revealing, card, 409)
    assert refused["type"].endswith("/card-ended")
    async with vision_host(running) as http:
        answer = await show(http, session["url"])
    assert (answer.status_code, slug(answer)) == (409, "card-ended")


async def test_wrong_token_reveals_nothing_and_leaves_the_session_usable(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card()
    first, second = [await open_session(revealing, card) for _ in range(2)]
    path, _, token = first["url"].partition("#")
    other = second["url"].partition("#")[2]
    async with vision_host(running) as http:
        for wrong in (f"{path}#{other}", f"{path}#rvl_{'A' * 43}", f"http://x/reveal/unknown#{token}"):
            answer = await show(http, wrong)
            assert (answer.status_code, slug(answer)) == (404, "not-found")
        assert (await http.post(path, json={})).status_code == 400
        assert (await show(http, first["url"])).status_code == 200
    assert [act for act, _, _ in await log_of(running, card)] == ["opened", "opened", "viewed"]


async def test_parallel_uses_show_the_card_once(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    session = await open_session(revealing, await acme.funded_card())
    async with vision_host(running) as http:
        answers = await asyncio.gather(*(show(http, session["url"]) for _ in range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [410] * 7


@pytest.mark.parametrize(
    ("origins", "ancestors"),
    [
        ([], "'none'"),
        (["https://app.example.com"], "https://app.example.com"),
        (
            ["https://App.Example.com", "https://pay.example:8443"],
            "https://app.example.com https://pay.example:8443",
        ),
    ],
)
async def test_page_can_be_framed_by_the_given_origins_only(
    running: Installation, acme: Caller, revealing: Caller, origins: list[str], ancestors: str
) -> None:
    session = await open_session(revealing, await acme.funded_card(), parent_origins=origins)
    async with vision_host(running) as http:
        page = await http.get(session["url"].partition("#")[0])
        unknown = await http.get("/reveal/unknown")
    assert page.status_code == 200
    assert page.headers["content-security-policy"].endswith(f"frame-ancestors {ancestors}")
    assert ("x-frame-options" in page.headers) == (not origins)
    assert page.headers["referrer-policy"] == "no-referrer"
    assert page.headers["cache-control"] == "no-store"
    assert unknown.status_code == 404
    assert unknown.headers["content-security-policy"].endswith("frame-ancestors 'none'")


@pytest.mark.parametrize(
    "origin",
    [
        "http://app.example.com",
        "https://app.example.com/",
        "https://app.example.com/path",
        "https://*.example.com",
        "https://user@example.com",
        "https://a.example;script-src *",
        "https://a.example b",
        "https://a.example\r\nx: y",
        "https://a.example:0",
        "https://-a.example",
        "*",
        "null",
        "'self'",
        "",
        7,
    ],
)
async def test_other_parents_are_refused(acme: Caller, revealing: Caller, origin: Any) -> None:
    card = await acme.funded_card("1.00")
    refused = await open_session(revealing, card, 400, parent_origins=[origin])
    assert refused["errors"][0]["pointer"] == "/parent_origins/0"


async def test_ten_parents_are_the_most(acme: Caller, revealing: Caller) -> None:
    card = await acme.funded_card("1.00")
    origins = [f"https://app{number}.example" for number in range(11)]
    await open_session(revealing, card, 400, parent_origins=origins)
    await open_session(revealing, card, parent_origins=origins[:10])


async def test_repeated_creation_returns_the_same_session(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card()
    path = f"/v1/cards/{card['id']}/reveal-sessions"
    first, again = [await revealing.send("POST", path, key="one") for _ in range(2)]
    assert (first.status_code, first.content) == (201, again.content)
    assert [act for act, _, _ in await log_of(running, card)] == ["opened"]


async def test_old_sessions_are_deleted_and_the_log_is_kept_for_a_year(
    running: Installation, acme: Caller, revealing: Caller
) -> None:
    card = await acme.funded_card()
    await open_session(revealing, card)
    pool = running.services.pool
    sessions = "SELECT count(*) FROM reveal_sessions WHERE card_id = $1"
    await sweep(ahead(running.services, DAY_MS))
    assert await pool.fetchval(sessions, card["id"]) == 1
    await sweep(ahead(running.services, DAY_MS + REVEAL_SESSION_SECONDS * 1000 + 1_000))
    assert await pool.fetchval(sessions, card["id"]) == 0
    await sweep(ahead(running.services, 400 * DAY_MS))
    assert len(await log_of(running, card)) == 1, "by the database's clock it is young"
    for change in (
        "DELETE FROM custody_log",
        "UPDATE custody_log SET actor = 'nobody'",
        "TRUNCATE custody_log",
    ):
        with pytest.raises(Exception, match="kept for a year"):
            await pool.execute(change)
    old = """INSERT INTO custody_log (at, tenant_id, live, card_id, session_id, act, actor, purpose)
        SELECT now() - make_interval(days => $2), tenant_id, live, card_id, session_id, act, 'old', purpose
        FROM custody_log WHERE card_id = $1 AND actor <> 'old'"""
    for days in (364, 367):
        await pool.execute(old, card["id"], days)
    await sweep(running.services)
    assert len(await log_of(running, card)) == 2
