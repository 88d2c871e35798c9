"""The console as a client of the API: permissions, problems, idempotency keys, the audit log, downloads."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from starlette.requests import Request

from api.access.tokens import Caller as ApiCaller
from api.console.api_calls import ConsoleApi, PageProblem, Problem
from api.http.scope import PREFIX, REQUEST_ID, SESSION_CALLER
from engine.scopes import default_scopes
from tests.support.api.console.people import person
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


async def console_api(
    running: Installation, tenant: str, *, live: bool = False, role: str = "admin", key: str | None = None
) -> ConsoleApi:
    who = await person(running, tenant, role=role)
    tenant_id = await running.services.pool.fetchval(
        "SELECT tenant_id::text FROM users WHERE id = $1", who.id
    )
    caller = ApiCaller(
        who.id,
        tenant_id,
        live,
        role,
        frozenset(default_scopes(role)),
        2**60,
        "user",
        frozenset(("test", "live")),
    )
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": "/console",
        "headers": [(b"host", b"console.test")],
        "client": ("127.0.0.1", 1),
        "server": ("console.test", 80),
        REQUEST_ID: "request-of-the-page",
        PREFIX: "",
    }
    return ConsoleApi(running.app, caller, Request(scope), key)


async def test_act_of_a_page_is_recorded_for_its_user(
    running: Installation, acme: Caller, tenant: str
) -> None:
    api = await console_api(running, tenant)
    card = await acme.funded_card()
    changed = await api.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    assert not isinstance(changed, Problem)
    assert changed["state"] == "suspended"
    entry = (await acme.get(f"/v1/audit-log?object_id={card['id']}&act=update_card"))["data"][0]
    assert entry["actor"]["kind"] == "user"
    assert entry["request_id"] == "request-of-the-page"
    made = await api.post("/v1/programs", {"name": "Of a page", "currency": "EUR"})
    assert not isinstance(made, Problem)
    entry = (await acme.get(f"/v1/audit-log?object_id={made['id']}"))["data"][0]
    assert (entry["actor"]["kind"], entry["actor"]["id"]) == ("user", api._caller.id)


async def test_form_that_is_sent_twice_has_one_effect(
    running: Installation, acme: Caller, tenant: str
) -> None:
    body = {"name": "Once", "currency": "EUR"}
    first = await console_api(running, tenant, key="form-1")
    again = ConsoleApi(running.app, first._caller, first._request, "form-1")
    made = await first.post("/v1/programs", body)
    assert await again.post("/v1/programs", body) == made
    # The second write of one form has a key of its own.
    assert await first.post("/v1/programs", body) != made


async def test_key_of_one_mode_means_nothing_in_the_other(running: Installation, tenant: str) -> None:
    test = await console_api(running, tenant)
    live = ConsoleApi(running.app, ApiCaller(**{**_members(test._caller), "live": True}), test._request)
    body = {"name": "Both", "currency": "EUR"}
    one, two = await test.post("/v1/programs", body, key="k"), await live.post("/v1/programs", body, key="k")
    assert not isinstance(one, Problem)
    assert not isinstance(two, Problem)
    assert one["id"] != two["id"]


def _members(caller: ApiCaller) -> dict[str, Any]:
    return {name: getattr(caller, name) for name in caller.__struct_fields__}


async def test_problems_are_values_with_pointers(running: Installation, tenant: str) -> None:
    api = await console_api(running, tenant, role="user")
    broken = await api.post("/v1/programs", {"name": "", "currency": "EUR"})
    assert isinstance(broken, Problem)
    assert (broken.status, broken.kind) == (400, "validation-failed")
    assert broken.at("/name") is not None
    assert broken.at("/currency") is None
    forbidden = await api.get("/v1/audit-log")
    assert isinstance(forbidden, Problem)
    assert forbidden.kind == "insufficient-scope"
    with pytest.raises(PageProblem):
        await api.require("/v1/cards/x")
    page = await api.require("/v1/cards", {"from": None}, limit=1, state="")
    assert page["data"] == []


async def test_parallel_calls_do_not_mix(running: Installation, acme: Caller, tenant: str) -> None:
    cards = [await acme.funded_card() for _ in range(3)]
    api = await console_api(running, tenant)
    found = await asyncio.gather(*(api.get(f"/v1/cards/{card['id']}") for card in cards))
    assert [each["id"] for each in found if not isinstance(each, Problem)] == [card["id"] for card in cards]


async def test_headers_of_a_request_cannot_name_a_caller(acme: Caller, running: Installation) -> None:
    answer = await running.http.get("/v1/cards", headers={SESSION_CALLER: "x", "X-Session-Caller": "x"})
    assert answer.status_code == 401


async def test_download_streams_the_answer_as_a_file() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["path"] == "/v1/flips.csv"
        assert scope["query_string"] == b"day=1"
        headers = [(b"content-type", b"text/csv"), (b"x-request-id", b"inner"), (b"set-cookie", b"a=b")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for part in (b"a,", b"b\n"):
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {},
        "http_version": "1.1",
        "scheme": "http",
        "headers": [],
        "client": None,
        "server": None,
        REQUEST_ID: "r",
    }
    caller = ApiCaller("c", "t", False, "user", frozenset(), 0)
    api = ConsoleApi(app, caller, Request(scope))
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await api.download("/v1/flips.csv", filename="flips.csv", day=1)(scope, receive, send)
    assert dict(sent[0]["headers"]) == {
        b"content-type": b"text/csv",
        b"content-disposition": b'attachment; filename="flips.csv"',
    }
    assert b"".join(message.get("body", b"") for message in sent[1:]) == b"a,b\n"
