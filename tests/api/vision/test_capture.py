"""Capture sessions on the vision host: document types, pictures, rate limits."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest
import time_machine

from api.vision.app import create_app
from api.vision.component import Answer
from engine.limits import EVIDENCE_BYTES_MAX, EVIDENCE_UPLOADS_MAX
from tests.api.http.test_problems import is_problem
from tests.support.api.driver import Caller
from tests.support.api.kyc.applicants import BASIC, DOCUMENT, applicant, begin, submit
from tests.support.api.stack import Installation
from tests.support.api.vision.applicant import (
    BIND,
    EVIDENCE,
    PICTURE,
    SESSION,
    bind,
    open_session,
    png,
    send_picture,
    vision_host,
)


def is_forwarded(response: httpx2.Response, code: str) -> None:
    is_problem(response, 400, code.replace("_", "-"))
    assert response.json()["code"] == code


async def test_new_session_has_a_token_that_is_stored_as_digest(running: Installation, acme: Caller) -> None:
    check = await begin(acme, "full")
    session = await open_session(acme, check)
    token = session["capture_session_token"]
    assert set(session) == {"id", "check_id", "kind", "capture_session_token", "url", "expires_at"}
    assert (session["check_id"], session["kind"]) == (check["id"], "flow")
    assert session["url"] == f"{running.services.settings.vision_address}/capture#{token}"
    assert len(token) > 43
    row = await running.services.pool.fetchrow(
        "SELECT *, extract(epoch FROM expires_at - created_at)::int AS seconds"
        " FROM kyc_capture_sessions WHERE id = $1",
        session["id"],
    )
    assert row is not None
    assert row["seconds"] == 3600
    assert token.encode() not in row["token_digest"]
    assert token not in str(dict(row))


async def test_repeated_request_gets_the_same_session(acme: Caller) -> None:
    check = await begin(acme, "full")
    path = f"/v1/kyc/checks/{check['id']}/capture-sessions"
    first = await acme.send("POST", path, {"kind": "flow"}, key="one")
    again = await acme.send("POST", path, {"kind": "flow"}, key="one")
    assert (first.status_code, first.content) == (201, again.content)


async def test_check_passes_with_data_over_the_api_and_pictures_of_the_applicant(
    running: Installation, acme: Caller
) -> None:
    check = await submit(acme, await begin(acme, "full"), BASIC)
    session = await open_session(acme, check)
    async with vision_host(running) as http:
        bound = await bind(http, session)
        assert (bound.status_code, bound.json()) == (
            200,
            {"check_id": check["id"], "document_type": "passport", "bound": True},
        )
        check = await acme.get(f"/v1/kyc/checks/{check['id']}")
        assert (check["document_type"], "document_type" in check["awaiting"]) == ("passport", False)
        attached = await send_picture(http, session, "document_evidence")
        assert (attached.status_code, attached.json()["awaiting"]) == (200, ["selfie"])
        data = {name: value for name, value in DOCUMENT.items() if name != "document_type"}
        check = await submit(acme, check, data)
        assert (check["state"], check["awaiting"]) == ("pending", ["selfie"])
        attached = await send_picture(http, session, "selfie")
        assert (attached.status_code, attached.json()["awaiting"]) == (200, [])
    check = await acme.get(f"/v1/kyc/checks/{check['id']}")
    assert (check["state"], check["awaiting"], check["document_type"]) == ("passed", [], "passport")


async def test_requests_of_applicants_are_counted(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    async with vision_host(running) as http:
        await bind(http, session)
        await send_picture(http, session, "selfie")
        await http.post(SESSION, json={"capture_session_token": "unknown"})
    counted: Any = running.services.counts.figures()["stanchion_rest_requests"]
    for operation, status in (
        ("set_document_type", "200"),
        ("attach_evidence", "200"),
        ("describe_capture_session", "404"),
    ):
        assert counted[operation, status] >= 1


async def test_document_type_is_locked_by_the_picture_of_the_document(
    running: Installation, acme: Caller
) -> None:
    session = await open_session(acme)
    async with vision_host(running) as http:
        missing = await send_picture(http, session, "document_evidence")
        is_problem(missing, 409, "document-type-missing")
        for chosen in ("passport", "national_id", "national_id"):
            assert (await bind(http, session, chosen)).json()["document_type"] == chosen
        assert (await send_picture(http, session, "document_evidence")).status_code == 200
        is_forwarded(await bind(http, session, "passport"), "document_class_locked")
        retaken = await send_picture(http, session, "document_evidence", png(9, 9))
        assert retaken.status_code == 200


async def test_unavailable_document_type_is_not_bound(running: Installation, acme: Caller) -> None:
    programme = await acme.programme(kyc_document_types=["passport"])
    check = await begin(acme, "full", await applicant(acme, programme))
    flow = await open_session(acme, check)
    single = await open_session(acme, check, kind="single")
    async with vision_host(running) as http:
        is_forwarded(await bind(http, single), "class_select_not_supported")
        is_forwarded(await bind(http, flow, "library_card"), "document_class_unavailable")
        is_forwarded(await bind(http, flow, "national_id"), "document_class_not_accepted")
        assert (await bind(http, flow)).status_code == 200
    assert (await acme.get(f"/v1/kyc/checks/{check['id']}"))["document_type"] == "passport"


async def test_single_session_is_created_with_its_document_type(running: Installation, acme: Caller) -> None:
    programme = await acme.programme(kyc_document_types=["passport"])
    check = await begin(acme, "full", await applicant(acme, programme))
    refused = await open_session(acme, check, 409, kind="single", document_type="national_id")
    assert refused["type"] == "/problems/document-type-not-accepted"
    session = await open_session(acme, check, kind="single", document_type="passport")
    async with vision_host(running) as http:
        assert (await send_picture(http, session, "document_evidence")).status_code == 200


async def test_unknown_expired_or_closed_session_is_not_found(running: Installation, acme: Caller) -> None:
    ended = await submit(acme, await begin(acme, "basic"), BASIC)
    assert (await open_session(acme, ended, 409))["type"] == "/problems/kyc-not-collecting"
    lapsed, closed = await open_session(acme), await open_session(acme)
    age = "UPDATE kyc_capture_sessions SET expires_at = now() WHERE id = $1"
    await running.services.pool.execute(age, lapsed["id"])
    end = "UPDATE kyc_checks SET expires_at = now() - interval '1 second' WHERE id = $1"
    await running.services.pool.execute(end, closed["check_id"])
    async with vision_host(running) as http:
        for token in ("unknown", lapsed["capture_session_token"], closed["capture_session_token"]):
            session = {"capture_session_token": token}
            is_problem(await bind(http, session), 404, "not-found")
            is_problem(await send_picture(http, session, "selfie"), 404, "not-found")


@pytest.mark.parametrize(
    ("body", "pointers"),
    [
        ({}, ["/capture_session_token", "/document_type"]),
        ({"capture_session_token": "t"}, ["/document_type"]),
        (
            {"capture_session_token": 1, "document_type": ["passport"]},
            ["/capture_session_token", "/document_type"],
        ),
        ({"capture_session_token": "t", "document_type": "passport", "more": 1}, ["/more"]),
    ],
)
async def test_invalid_body_is_refused(
    running: Installation, body: dict[str, Any], pointers: list[str]
) -> None:
    async with vision_host(running) as http:
        response = await http.post(BIND, json=body)
        is_problem(response, 400, "validation-failed")
        assert [error["pointer"] for error in response.json()["errors"]] == pointers
        is_problem(await http.post(BIND, content=b"{"), 400, "invalid-json")


async def test_each_address_is_limited_to_ten_binds_in_a_window(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    with time_machine.travel("2026-11-21T10:00:10Z", tick=False) as clock:
        async with vision_host(running) as http:
            statuses = [(await http.post(BIND, content=b"{")).status_code for _ in range(10)]
            assert statuses == [400] * 10
            limited = await bind(http, session)
            is_problem(limited, 429, "rate-limited")
            assert limited.headers["retry-after"] == "60"
            # The peer is not a trusted proxy, so its X-Forwarded-For is ignored.
            other = {"X-Forwarded-For": "198.51.100.7"}
            assert (await http.post(BIND, content=b"{", headers=other)).status_code == 429
            # The window is fixed: it does not slide with each request.
            clock.shift(59)
            assert (await http.post(BIND, content=b"{")).status_code == 429
            clock.shift(2)
            assert (await http.post(BIND, content=b"{")).status_code == 400
            # Other requests of the capture page have a separate limit.
            assert (await http.post(SESSION, json={"capture_session_token": "x"})).status_code == 404


async def test_invalid_picture_is_refused_and_not_stored(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    async with vision_host(running) as http:
        await bind(http, session)
        for picture, said, status, slug in (
            (b"GIF89a", "image/gif", 415, "unsupported-media-type"),
            (PICTURE, "application/json", 415, "unsupported-media-type"),
            (b"", "image/png", 400, "invalid-image"),
            (b"<svg/>", "image/png", 400, "invalid-image"),
            (PICTURE, "image/jpeg", 400, "invalid-image"),
            (PICTURE + bytes(EVIDENCE_BYTES_MAX), "image/png", 413, "content-too-large"),
        ):
            is_problem(await send_picture(http, session, "selfie", picture, said), status, slug)
        headers = {"Capture-Session-Token": session["capture_session_token"]}
        is_problem(await http.post(EVIDENCE + "passport", content=PICTURE, headers=headers), 404, "not-found")
        is_problem(
            await http.post(EVIDENCE + "selfie", content=PICTURE, headers=headers),
            415,
            "unsupported-media-type",
        )
    kept = "SELECT count(*) FROM kyc_values WHERE check_id = $1"
    assert await running.services.pool.fetchval(kept, session["check_id"]) == 0


async def test_largest_picture_is_stored_whole(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    picture = PICTURE + bytes(EVIDENCE_BYTES_MAX - len(PICTURE))
    async with vision_host(running) as http:
        assert (await send_picture(http, session, "selfie", picture)).status_code == 200
    size = "SELECT octet_length(sealed) FROM kyc_values WHERE check_id = $1"
    assert await running.services.pool.fetchval(size, session["check_id"]) == len(picture) + 28


async def test_concurrent_pictures_are_both_stored(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    async with vision_host(running) as http:
        await bind(http, session)
        answers = await asyncio.gather(
            *(send_picture(http, session, name) for name in ("document_evidence", "selfie"))
        )
        assert [answer.status_code for answer in answers] == [200, 200]
        described = await http.post(SESSION, json={"capture_session_token": session["capture_session_token"]})
    assert described.json()["awaiting"] == []


async def test_concurrent_uploads_of_a_tenant_are_limited(
    running: Installation, acme: Caller, tenant: str
) -> None:
    """Each slow upload uses one place. A tenant gets half of all places; beyond these its uploads get 429,
    and those of another tenant do not."""
    session = await open_session(acme)
    other = await open_session(await running.caller(f"{tenant}-other"))
    begun = asyncio.Semaphore(0)
    go_on = asyncio.Event()

    async def slowly() -> Any:
        yield PICTURE
        begun.release()
        await go_on.wait()

    headers = {"Capture-Session-Token": session["capture_session_token"], "Content-Type": "image/png"}
    app = create_app(running.services)

    async def slow_upload() -> int:
        sent = slowly()
        status = 0

        async def receive() -> dict[str, Any]:
            try:
                return {"type": "http.request", "body": await anext(sent), "more_body": True}
            except StopAsyncIteration:
                return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            status = message.get("status", status)

        named = {"Host": "vision.test"} | headers
        raw = [(name.lower().encode(), value.encode()) for name, value in named.items()]
        where = {"path": EVIDENCE + "selfie", "root_path": "", "query_string": b"", "scheme": "http"}
        who = {"client": ("203.0.113.9", 1), "server": ("vision.test", 80), "headers": raw}
        scope = {"type": "http", "http_version": "1.1", "method": "POST", **where, **who}
        await app(scope, receive, send)
        return status

    uploads = [asyncio.create_task(slow_upload()) for _ in range(EVIDENCE_UPLOADS_MAX // 2)]
    for _ in uploads:
        await begun.acquire()
    transport = httpx2.ASGITransport(app=app, client=("203.0.113.10", 1))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        is_problem(
            await http.post(EVIDENCE + "selfie", content=PICTURE, headers=headers), 429, "rate-limited"
        )
        others = headers | {"Capture-Session-Token": other["capture_session_token"]}
        assert (await http.post(EVIDENCE + "selfie", content=PICTURE, headers=others)).status_code == 200
        go_on.set()
        assert set(await asyncio.gather(*uploads)) <= {200, 409}
        assert (await http.post(EVIDENCE + "selfie", content=PICTURE, headers=headers)).status_code == 200


class Scripted:
    """A custom capture component with a scripted answer; records its requests."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[tuple[str, str]] = []

    async def set_document_type(self, capture_session_token: str, document_type: str) -> Answer:
        self.asked.append((capture_session_token, document_type))
        return self.answer

    async def describe(self, capture_session_token: str) -> Answer:
        return self.answer

    async def attach(self, capture_session_token: str, name: str, picture: bytes) -> Answer:
        return self.answer


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Answer(200, {"check_id": "c", "document_type": "scroll", "bound": True, "later": [1]}), 200),
        (Answer(400, code="document_class_unavailable"), 400),
        (Answer(404), 404),
        (Answer(503), 500),
    ],
)
async def test_custom_component_answers_pass_unchanged(
    running: Installation, answer: Answer, status: int
) -> None:
    component = Scripted(answer)
    transport = httpx2.ASGITransport(app=create_app(running.services, component))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        response = await bind(http, {"capture_session_token": "any token"}, "scroll")
    assert component.asked == [("any token", "scroll")]
    assert response.status_code == status
    if status == 200:
        assert response.json() == answer.body
    if answer.code:
        assert response.json()["code"] == answer.code


async def test_capture_page_has_strict_security_headers(running: Installation) -> None:
    async with vision_host(running) as http:
        page = await http.get("/capture")
        assert page.headers["content-type"] == "text/html; charset=utf-8"
        for path in ("/capture", "/capture/capture.js", "/capture/capture.css"):
            answer = await http.get(path)
            assert answer.status_code == 200
            assert answer.headers["referrer-policy"] == "no-referrer"
            assert answer.headers["cache-control"] == "no-store"
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
            assert "unsafe" not in policy
            assert "//" not in answer.text.replace("// ", "")
        for name in ("capture.js", "capture.css"):
            assert f"/capture/{name}" in page.text
        assert "<script>" not in page.text
        assert "style=" not in page.text
        is_problem(await http.get("/capture/__init__.py"), 404, "not-found")
