"""The console's pages of webhook endpoints and events."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

URL = "https://hooks.example.com/stanchion"


async def record_attempt(running: Installation, delivery_id: str, status_code: int) -> None:
    """An attempt as a dispatcher records it."""
    pool = running.services.pool
    await pool.execute(
        "INSERT INTO delivery_attempts (delivery_id, number, started_at, latency_ms, status_code)"
        " VALUES ($1::uuid, 1, now(), 37, $2)",
        delivery_id,
        status_code,
    )


async def test_endpoint_is_created_tested_and_its_delivery_shown(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser:
        assert "No endpoints yet" in (await browser.get("/webhooks")).text
        form = {"url": URL, "description": "Back <office>", "event_types": ["card.created", "card.updated"]}
        created = await browser.post("/webhooks/new", form, 201)
        (endpoint,) = (await acme.get("/v1/webhook-endpoints"))["data"]
        assert endpoint["event_types"] == ["card.created", "card.updated"]
        (secret,) = set(re.findall(r"whsec_\w+", created.text))
        listed = (await browser.get("/webhooks")).text
        assert "Back &lt;office&gt;" in listed
        path = f"/webhooks/{endpoint['id']}"
        delivered = await browser.follow(await browser.post(f"{path}/test"))
        assert "webhook_endpoint.tested" in delivered.text
        (delivery,) = (await acme.get(f"/v1/webhook-endpoints/{endpoint['id']}/deliveries"))["data"]
        await record_attempt(running, delivery["id"], 503)
        page = (await browser.get(f"{path}/events/{delivery['event_id']}")).text
        assert "HTTP 503" in page
        assert "37 ms" in page
        assert "&#34;occurred_at&#34;" in page
        again = await browser.follow(await browser.post(f"{path}/events/{delivery['event_id']}/resend"))
        assert "Sent again" in again.text
        for state, rows in (("pending", 2), ("failed", 0), ("", 2)):
            shown = (await browser.get(path, state=state)).text
            assert shown.count(f'href="/console{path}/events/') == rows
            assert secret not in shown


async def test_secret_is_shown_once_after_a_rotation(running: Installation, acme: Caller) -> None:
    endpoint = await acme.endpoint()
    async with visitor(running, acme) as browser:
        path = f"/webhooks/{endpoint['id']}"
        rotated = (await browser.post(f"{path}/rotate-secret", status=200)).text
        (secret,) = set(re.findall(r"whsec_\w+", rotated))
        assert secret != endpoint["secret"]
        page = (await browser.get(path)).text
        assert "whsec_" not in page
        assert "Previous secret signs until" in page


async def test_form_of_an_endpoint_shows_problems_at_its_fields(running: Installation, acme: Caller) -> None:
    async with visitor(running, acme) as browser:
        refused = await browser.post("/webhooks/new", {"url": "http://<b>", "description": "x"}, 400)
        assert 'id="url-error"' in refused.text
        assert "http://&lt;b&gt;" in refused.text
        assert 'id="event_types-error"' in refused.text
        endpoint = await acme.endpoint()
        path = f"/webhooks/{endpoint['id']}"
        shown = (await browser.get(f"{path}/edit")).text
        assert f'value="{endpoint["url"]}"' in shown
        assert re.search(r'value="card.created"[^>]* checked', shown)
        change = {"url": endpoint["url"], "description": "", "event_types": ["*", "card.created"]}
        assert "is changed" in (await browser.follow(await browser.post(f"{path}/edit", change))).text
        changed = await acme.get(f"/v1/webhook-endpoints/{endpoint['id']}")
        assert (changed["event_types"], changed["description"]) == (["*"], None)


async def test_endpoint_is_disabled_enabled_and_deleted(running: Installation, acme: Caller) -> None:
    endpoint = await acme.endpoint()
    path = f"/webhooks/{endpoint['id']}"
    async with visitor(running, acme) as browser:
        for act, status in (("disable", "disabled"), ("enable", "enabled")):
            page = await browser.follow(await browser.post(f"{path}/{act}"))
            assert f"The endpoint is {status}." in page.text
            if status == "disabled":
                refused = await browser.post(f"{path}/test", status=409)
                assert "is disabled" in refused.text
        assert "is deleted" in (await browser.follow(await browser.post(f"{path}/delete"))).text
        await browser.get(path, 404)
    acts = [each["act"] for each in (await acme.get(f"/v1/audit-log?object_id={endpoint['id']}"))["data"]]
    assert acts == ["delete_webhook_endpoint", *["update_webhook_endpoint"] * 2, "create_webhook_endpoint"]


async def test_session_without_the_scope_sees_no_actions_and_cannot_act(
    running: Installation, acme: Caller
) -> None:
    endpoint = await acme.endpoint()
    await acme.programme()
    event = (await acme.get("/v1/events"))["data"][0]
    reader = await running.caller(acme.credentials.name, role="user", scopes=("webhooks:read", "events:read"))
    path = f"/webhooks/{endpoint['id']}"
    async with visitor(running, reader) as browser:
        for page in ("/webhooks", path, f"/events/{event['id']}"):
            main = (await browser.get(page)).text.partition("<main")[2]
            assert "<form" not in main
            assert "/webhooks/new" not in main
        for act in ("/test", "/rotate-secret", "/disable", "/edit", "/delete"):
            await browser.post(f"{path}{act}", {"url": URL}, status=403)
        await browser.post(f"{path}/events/{event['id']}/resend", status=403)
        await browser.get("/webhooks/new", 403)
    other = await running.caller(acme.credentials.name, role="user", scopes=("cards:read",))
    async with visitor(running, other) as browser:
        for page in ("/webhooks", path, "/events", f"/events/{event['id']}"):
            await browser.get(page, 403)


async def test_foreign_endpoints_and_events_are_not_found(
    running: Installation, acme: Caller, tenant: str
) -> None:
    rival = await running.caller(f"{tenant}-rival")
    endpoint, own = await rival.endpoint(), await acme.endpoint()
    await rival.programme()
    event = (await rival.get("/v1/events"))["data"][0]
    async with visitor(running, acme) as browser:
        for page in (
            f"/webhooks/{endpoint['id']}",
            f"/webhooks/{endpoint['id']}/edit",
            f"/webhooks/{own['id']}/events/{event['id']}",
            f"/events/{event['id']}",
            "/webhooks/x",
            "/events/x",
        ):
            assert "hooks.example.com" not in (await browser.get(page, 404)).text
        await browser.post(f"/webhooks/{endpoint['id']}/delete", status=404)
    assert (await rival.get("/v1/webhook-endpoints"))["data"]


async def test_events_are_filtered_and_link_to_their_deliveries(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    endpoint = await acme.endpoint()
    async with visitor(running, acme) as browser:
        everything = (await browser.get("/events")).text
        assert f'href="/console/cards/{card["id"]}"' in everything
        assert "ledger.entry.posted" in rows(everything)
        filtered = (await browser.get("/events", type="card.created")).text
        assert set(types(filtered)) == {"card.created"}
        assert types((await browser.get("/events", **{"from": "2099-01-01T00:00"})).text) == []
        assert types((await browser.get("/events", **{"to": "2099-01-01T00:00", "from": "nonsense"})).text)
        (event,) = (await acme.get("/v1/events?types=card.created"))["data"]
        page = (await browser.get(f"/events/{event['id']}")).text
        assert "A card was issued." in page
        assert "Not sent to this endpoint." in page
        sent = await browser.follow(
            await browser.post(f"/webhooks/{endpoint['id']}/events/{event['id']}/resend")
        )
        assert "Sent again" in sent.text


def rows(page: str) -> str:
    """The body of the page's table."""
    return page.partition("<tbody>")[2].partition("</tbody>")[0]


def types(page: str) -> list[str]:
    """The event types of the page's rows."""
    return re.findall(r'href="/console/events/[^"]+">([^<]+)<', rows(page))


async def test_events_are_paged_back_and_forward(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.console.view.PAGE_ROWS", 2)
    await acme.funded_card()
    seen: list[Any] = []
    async with visitor(running, acme) as browser:
        page = (await browser.get("/events")).text
        first = rows(page)
        while True:
            seen += re.findall(r'href="/console/events/([^"]+)"', rows(page))
            older = address(page, "next")
            if older is None:
                break
            page = (await browser.http.get(f"/console/events{older}")).text
        assert seen == [each["id"] for each in (await acme.get("/v1/events?limit=100"))["data"]]
        while (newer := address(page, "prev")) is not None:
            page = (await browser.http.get(f"/console/events{newer}")).text
        assert rows(page) == first


def address(page: str, rel: str) -> str | None:
    """The query of the link to the next or the previous page."""
    found = re.search(rf'rel="{rel}" href="([^"]+)"', page)
    return None if found is None else found[1].replace("&amp;", "&")
