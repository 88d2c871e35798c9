"""Webhook endpoints over the API: creation and changes, secrets, deliveries and redelivery."""

from __future__ import annotations

import asyncio
import dataclasses
from datetime import timedelta
from typing import Any

import asyncpg
import httpx2
import pytest

from actors.webhooks.signing_secrets import SigningSecrets
from api.app import create_app
from engine.instant import to_datetime, to_ms, to_text
from engine.webhooks.catalogue import CATALOGUE
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

MINUTE_MS = 60_000
MEMBERS = {
    "id",
    "url",
    "event_types",
    "description",
    "status",
    "previous_secret_expires_at",
    "created_at",
    "updated_at",
}


class Moments:
    """A clock that a test moves."""

    def __init__(self, now_ms: int) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


def at(running: Installation, clock: Moments) -> httpx2.AsyncClient:
    """A client of a second API server of the installation, which uses ``clock``."""
    app = create_app(dataclasses.replace(running.services, clock=clock))
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://api.test")


async def stored_secrets(running: Installation, endpoint_id: str) -> list[str | None]:
    """The current and the previous secret, opened as by a dispatcher."""
    row = await running.services.pool.fetchrow(
        "SELECT secret_sealed, previous_secret_sealed FROM webhook_endpoints WHERE id = $1::uuid", endpoint_id
    )
    assert row is not None
    signing_secrets = SigningSecrets(running.services.vault)
    return [None if sealed is None else signing_secrets.open(endpoint_id, sealed) for sealed in row]


# --- creation and changes ---


async def test_endpoint_is_created_read_changed_and_deleted(acme: Caller) -> None:
    made = await acme.endpoint(event_types=["card.created", "transaction.cleared"], description="Ledger")
    assert set(made) == MEMBERS | {"secret"}
    assert (made["status"], made["previous_secret_expires_at"]) == ("enabled", None)
    secret = made.pop("secret")
    path = f"/v1/webhook-endpoints/{made['id']}"
    assert await acme.get(path) == made
    assert (await acme.get("/v1/webhook-endpoints"))["data"] == [made]

    changed = await acme.patch(path, {"url": "https://other.example.com/", "status": "disabled"})
    assert changed == made | {
        "url": "https://other.example.com/",
        "status": "disabled",
        "updated_at": changed["updated_at"],
    }
    assert changed["updated_at"] > made["updated_at"]
    assert await acme.patch(path, {"status": "disabled"}) == changed, (
        "a change without effect updated the endpoint"
    )
    assert (await acme.patch(path, {"description": None, "event_types": ["*"]}))["event_types"] == ["*"]

    for _ in ("first", "again"):
        response = await acme.send("DELETE", path)
    assert response.status_code == 404
    assert (await acme.send("GET", path)).status_code == 404
    assert (await acme.get("/v1/webhook-endpoints"))["data"] == []
    assert secret not in str(changed)


async def test_repeated_delete_returns_the_stored_204(acme: Caller) -> None:
    endpoint = await acme.endpoint()
    response = await acme.send("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}", key="a-key-of-its-own")
    assert (response.status_code, response.content) == (204, b"")
    again = await acme.send("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}", key="a-key-of-its-own")
    assert (again.status_code, again.content) == (204, b"")
    assert again.headers["idempotent-replayed"] == "true"


@pytest.mark.parametrize("types", [["*"], ["card.created"], list(CATALOGUE), ["transaction.cleared"]])
async def test_endpoint_subscribes_to_any_event_type_of_the_catalogue(acme: Caller, types: list[str]) -> None:
    assert (await acme.endpoint(event_types=types))["event_types"] == types


async def test_repeated_event_type_is_stored_once(acme: Caller) -> None:
    endpoint = await acme.endpoint(event_types=["card.updated", "card.created", "card.updated"])
    assert endpoint["event_types"] == ["card.updated", "card.created"]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"event_types": []}, "/event_types"),
        ({"event_types": ["card.exploded"]}, "/event_types"),
        ({"event_types": ["card.created", "*"]}, "/event_types"),
        ({"event_types": "*"}, "/event_types"),
        ({"event_types": [1]}, "/event_types/0"),
        ({"event_types": None}, "/event_types"),
        ({"description": ""}, "/description"),
        ({"description": "a\nb"}, "/description"),
        ({"description": "a" * 256}, "/description"),
        ({"status": "disabled"}, "/status"),
        ({"secret": "whsec_mine"}, "/secret"),
        ({"url": None}, "/url"),
        ({"url": 1}, "/url"),
    ],
    ids=str,
)
async def test_invalid_endpoint_is_refused(acme: Caller, fields: dict[str, Any], pointer: str) -> None:
    body = {"url": "https://hooks.example.com/", "event_types": ["*"]} | fields
    response = await acme.send("POST", "/v1/webhook-endpoints", body)
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == pointer
    assert "exploded" not in response.text


@pytest.mark.parametrize("body", [{}, {"event_types": []}, {"status": "asleep"}, {"id": "x"}, {"url": None}])
async def test_invalid_change_is_refused(acme: Caller, body: dict[str, Any]) -> None:
    endpoint = await acme.endpoint()
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    assert (await acme.send("PATCH", path, body)).status_code == 400
    endpoint.pop("secret")
    assert await acme.get(path) == endpoint


async def test_tenant_is_limited_to_sixteen_endpoints_in_each_mode(
    running: Installation, acme: Caller
) -> None:
    body = {"url": "https://hooks.example.com/", "event_types": ["*"]}
    answers = await asyncio.gather(*(acme.send("POST", "/v1/webhook-endpoints", body) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [201] * 16 + [409] * 4
    refused = next(answer for answer in answers if answer.status_code == 409)
    assert refused.json()["type"] == "/problems/webhook-endpoint-limit"
    live = await running.caller(acme.credentials.name, mode="live")
    await live.endpoint()
    one = (await acme.get("/v1/webhook-endpoints?limit=1"))["data"][0]
    await acme.send("DELETE", f"/v1/webhook-endpoints/{one['id']}")
    await acme.endpoint()


# --- secrets ---


async def test_secret_is_shown_once_and_stored_sealed(running: Installation, acme: Caller) -> None:
    body = {"url": "https://hooks.example.com/", "event_types": ["*"]}
    first = await acme.send("POST", "/v1/webhook-endpoints", body, key="shown-once")
    made = first.json()
    assert made["secret"].startswith("whsec_")
    assert len(made["secret"]) == len("whsec_") + 43
    assert (await acme.send("POST", "/v1/webhook-endpoints", body, key="shown-once")).content == first.content
    assert await stored_secrets(running, made["id"]) == [made["secret"], None]
    for path in ("/v1/webhook-endpoints", f"/v1/webhook-endpoints/{made['id']}"):
        assert made["secret"] not in (await acme.send("GET", path)).text
    dump = await running.services.pool.fetchval("SELECT string_agg(w::text, '') FROM webhook_endpoints w")
    kept = await running.services.pool.fetchval("SELECT string_agg(i::text, '') FROM idempotency i")
    assert made["secret"].encode().hex() not in dump + kept
    assert made["secret"] not in dump + kept


async def test_rotation_keeps_the_previous_secret_for_a_day(running: Installation, acme: Caller) -> None:
    endpoint = await acme.endpoint()
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    # The expiry comes from the database's clock, not from the API server's clock.
    wrong = Moments(running.services.clock.now_ms() - 4 * MINUTE_MS)
    async with at(running, wrong) as acme.http:
        rotated = await acme.post(f"{path}/rotate-secret", None, 200)
    row = await running.services.pool.fetchrow(
        "SELECT previous_secret_expires_at AS expires_at, updated_at BETWEEN created_at AND now()"
        " AND previous_secret_expires_at = updated_at + interval '24 hours' AS right"
        " FROM webhook_endpoints WHERE id = $1::uuid",
        endpoint["id"],
    )
    assert row is not None
    assert row["right"]
    assert rotated["previous_secret_expires_at"] == to_text(to_ms(row["expires_at"]))
    assert rotated["secret"] != endpoint["secret"]
    assert await stored_secrets(running, endpoint["id"]) == [rotated["secret"], endpoint["secret"]]
    acme.http = running.http
    for expires_at, shown in (("now() + interval '1 minute'", True), ("now() - interval '1 ms'", False)):
        await running.services.pool.execute(
            f"UPDATE webhook_endpoints SET previous_secret_expires_at = {expires_at} WHERE id = $1::uuid",
            endpoint["id"],
        )
        assert ((await acme.get(path))["previous_secret_expires_at"] is not None) == shown


async def test_second_rotation_drops_the_oldest_secret(running: Installation, acme: Caller) -> None:
    endpoint = await acme.endpoint()
    path = f"/v1/webhook-endpoints/{endpoint['id']}/rotate-secret"
    second, third = await acme.post(path, None, 200), await acme.post(path, None, 200)
    assert await stored_secrets(running, endpoint["id"]) == [third["secret"], second["secret"]]
    assert len({endpoint["secret"], second["secret"], third["secret"]}) == 3


async def test_concurrent_rotations_are_serialized(running: Installation, acme: Caller) -> None:
    endpoint = await acme.endpoint()
    path = f"/v1/webhook-endpoints/{endpoint['id']}/rotate-secret"
    rotated = await asyncio.gather(*(acme.post(path, None, 200) for _ in range(5)))
    present, previous = await stored_secrets(running, endpoint["id"])
    assert {present, previous} <= {answer["secret"] for answer in rotated}
    assert present != previous


# --- deliveries ---


async def test_redelivery_creates_a_delivery_to_one_endpoint(acme: Caller) -> None:
    programme, endpoint = await acme.programme(), await acme.endpoint(event_types=["card.updated"])
    event = (await acme.get("/v1/events"))["data"][0]
    assert event["type"] == "programme.created"
    first, second = [
        await acme.post(f"/v1/events/{event['id']}/redeliver", {"endpoint_id": endpoint["id"]}, 202)
        for _ in range(2)
    ]
    assert first == {
        "delivery_id": first["delivery_id"],
        "event_id": event["id"],
        "endpoint_id": endpoint["id"],
        "status": "pending",
    }
    listed = await acme.get(f"/v1/webhook-endpoints/{endpoint['id']}/deliveries")
    assert [row["id"] for row in listed["data"]] == [second["delivery_id"], first["delivery_id"]]
    delivery = listed["data"][1]
    assert delivery == {
        "id": first["delivery_id"],
        "event_id": event["id"],
        "event_type": "programme.created",
        "redelivery": True,
        "state": "pending",
        "failure": None,
        "attempts": [],
        "next_attempt_at": delivery["created_at"],
        "created_at": delivery["created_at"],
    }
    assert programme["id"] in str(event)


async def test_redelivery_to_a_disabled_endpoint_is_refused(acme: Caller) -> None:
    await acme.programme()
    endpoint = await acme.endpoint()
    await acme.patch(f"/v1/webhook-endpoints/{endpoint['id']}", {"status": "disabled"})
    event = (await acme.get("/v1/events"))["data"][0]
    to = {"endpoint_id": endpoint["id"]}
    response = await acme.send("POST", f"/v1/events/{event['id']}/redeliver", to)
    assert response.status_code == 409
    assert response.json()["type"] == "/problems/webhook-endpoint-disabled"


async def test_test_event_has_one_delivery_to_its_endpoint(acme: Caller) -> None:
    endpoint = await acme.endpoint(event_types=["card.updated"])
    await acme.endpoint(event_types=["*"])
    path = f"/v1/webhook-endpoints/{endpoint['id']}"
    sent = await acme.post(f"{path}/test", None, 202, key="test-1")
    assert sent == await acme.post(f"{path}/test", None, 202, key="test-1")
    (event,) = (await acme.get("/v1/events?types=webhook_endpoint.tested"))["data"]
    assert event["data"] == {"endpoint_id": endpoint["id"], "occurred_at": event["created_at"]}
    (delivery,) = (await acme.get(f"{path}/deliveries"))["data"]
    assert (delivery["id"], delivery["event_id"]) == (sent["delivery_id"], event["id"])
    assert (delivery["redelivery"], delivery["state"]) == (False, "pending")
    await acme.patch(path, {"status": "disabled"})
    refusal = await acme.post(f"{path}/test", None, 409)
    assert refusal["type"] == "/problems/webhook-endpoint-disabled"


async def test_redelivery_of_an_event_past_retention_is_not_found(
    running: Installation, acme: Caller
) -> None:
    await acme.programme()
    endpoint = await acme.endpoint()
    event = (await acme.get("/v1/events"))["data"][0]
    await running.services.pool.execute(
        "UPDATE event_rows SET created_at = now() - interval '30 days' WHERE id = $1::uuid", event["id"]
    )
    to = {"endpoint_id": endpoint["id"]}
    assert (await acme.send("POST", f"/v1/events/{event['id']}/redeliver", to)).status_code == 404
    assert (await acme.get("/v1/events"))["data"] == []


async def test_deliveries_are_listed_with_their_attempts(running: Installation, acme: Caller) -> None:
    await acme.programme()
    endpoint = await acme.endpoint()
    event = (await acme.get("/v1/events"))["data"][0]
    to = {"endpoint_id": endpoint["id"]}
    failed, delivered, pending = [
        (await acme.post(f"/v1/events/{event['id']}/redeliver", to, 202))["delivery_id"] for _ in range(3)
    ]
    await record_attempts(running.services.pool, failed, delivered)
    path = f"/v1/webhook-endpoints/{endpoint['id']}/deliveries"
    rows = {row["id"]: row for row in (await acme.get(path))["data"]}
    assert [attempt["number"] for attempt in rows[failed]["attempts"]] == [1, 2]
    assert rows[failed]["attempts"][0] == {
        "number": 1,
        "started_at": "2026-11-21T10:15:30.120Z",
        "latency_ms": 10_000,
        "status_code": None,
        "error": "timeout",
    }
    assert (rows[failed]["state"], rows[failed]["failure"]) == ("failed", "attempts_exhausted")
    assert rows[failed]["next_attempt_at"] is None
    assert rows[delivered]["attempts"][0]["status_code"] == 200
    for state, id_ in (("failed", failed), ("delivered", delivered), ("pending", pending)):
        assert [row["id"] for row in (await acme.get(f"{path}?state={state}"))["data"]] == [id_]
    assert len((await acme.get(f"{path}?event_id={event['id']}"))["data"]) == 3
    pages = await acme.get(f"{path}?limit=2")
    rest = await acme.get(f"{path}?limit=2&starting_after={pages['next_cursor']}")
    assert [row["id"] for row in pages["data"] + rest["data"]] == [pending, delivered, failed]
    assert (await acme.send("GET", f"{path}?state=lost")).status_code == 400


async def record_attempts(pool: asyncpg.Pool[asyncpg.Record], failed: str, delivered: str) -> None:
    """Insert two failed attempts of ``failed`` and a successful one of ``delivered``, as a dispatcher
    does."""
    started_at = to_datetime(1_795_256_130_120)
    await pool.executemany(
        "INSERT INTO delivery_attempts VALUES ($1::uuid, $2, $3, $4, $5, $6)",
        [
            (failed, 2, started_at + timedelta(minutes=1), 12, 503, None),
            (failed, 1, started_at, 10_000, None, "timeout"),
            (delivered, 1, started_at, 8, 200, None),
        ],
    )
    for id_, state, failure in ((failed, "failed", "attempts_exhausted"), (delivered, "delivered", None)):
        await pool.execute(
            "UPDATE deliveries SET state = $2, failure = $3, next_attempt_at = NULL WHERE id = $1::uuid",
            id_,
            state,
            failure,
        )
