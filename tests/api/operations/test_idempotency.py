"""Idempotency keys: one effect per key, and every repetition gets the stored bytes (guarantee G5)."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest
from starlette.responses import Response

from api.http.problems import Refusal
from api.operations.idempotency import keep_refusal, recall
from engine.replies import IdempotencyClaim
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def key() -> str:
    return str(uuid.uuid4())


async def keyed_requests(acme: Caller) -> list[tuple[str, str, Any]]:
    """A valid request to each operation with a key, those of shard hosts and those of the API itself."""
    card, endpoint = await acme.funded_card(), await acme.endpoint()
    event = (await acme.get("/v1/events?limit=1"))["data"][0]
    return [
        ("POST", "/v1/programs", {"name": "Again", "currency": "EUR"}),
        ("PATCH", f"/v1/programs/{card['programme_id']}", {"name": "Renamed"}),
        (
            "POST",
            "/v1/card-products",
            {
                "programme_id": card["programme_id"],
                "name": "Again",
                "network": "visa",
                "currency": "EUR",
                "form_factor": "physical",
                "iin": "40000012",
            },
        ),
        (
            "POST",
            "/v1/cardholders",
            {
                "programme_id": card["programme_id"],
                "given_name": "A",
                "family_name": "B",
                "email": "a@b.example",
            },
        ),
        (
            "POST",
            "/v1/cards",
            {"card_product_id": card["card_product_id"], "cardholder_id": card["cardholder_id"]},
        ),
        ("PATCH", f"/v1/cards/{card['id']}", {"state": "suspended", "state_reason": "lost sight of it"}),
        (
            "POST",
            "/v1/simulated-loads",
            {"card_id": card["id"], "amount": {"amount": "1.00", "currency": "EUR"}},
        ),
        ("POST", f"/v1/card-products/{card['card_product_id']}/retire", None),
        ("POST", "/v1/webhook-endpoints", {"url": "https://hooks.example.com/", "event_types": ["*"]}),
        ("PATCH", f"/v1/webhook-endpoints/{endpoint['id']}", {"description": "Again"}),
        ("POST", f"/v1/webhook-endpoints/{endpoint['id']}/rotate-secret", None),
        ("POST", f"/v1/events/{event['id']}/redeliver", {"endpoint_id": endpoint["id"]}),
        ("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}", None),
    ]


async def test_repeated_request_gets_the_same_bytes(acme: Caller) -> None:
    for method, path, body in await keyed_requests(acme):
        of_request = key()
        first = await acme.send(method, path, body, key=of_request)
        assert first.status_code in {200, 201, 202, 204}, first.text
        assert "idempotent-replayed" not in first.headers
        for _ in range(2):
            again = await acme.send(method, path, body, key=of_request)
            assert (again.status_code, again.content) == (first.status_code, first.content)
            assert again.headers["idempotent-replayed"] == "true"
            assert again.headers.get("content-type") == first.headers.get("content-type")


async def test_same_key_with_another_body_is_refused(acme: Caller) -> None:
    for method, path, body in await keyed_requests(acme):
        of_request = key()
        await acme.send(method, path, body, key=of_request)
        other = await acme.send(method, path, {**(body or {}), "name": "Other"}, key=of_request)
        assert other.status_code == 409, path
        assert other.json()["type"] == "/problems/idempotency-key-reused"


async def test_key_is_scoped_by_client_method_and_path(running: Installation, acme: Caller) -> None:
    of_request = key()
    programme = await acme.post("/v1/programs", {"name": "A", "currency": "EUR"}, key=of_request)
    other = await running.caller(acme.credentials.name)
    assert (await other.post("/v1/programs", {"name": "A", "currency": "EUR"}, key=of_request))[
        "id"
    ] != programme["id"]
    body = {"programme_id": programme["id"], "given_name": "A", "family_name": "B", "email": "a@b.example"}
    await acme.post("/v1/cardholders", body, key=of_request)


async def test_repeated_request_may_format_its_json_differently(acme: Caller) -> None:
    of_request = key()
    first = await acme.send("POST", "/v1/programs", raw=b'{"name": "A", "currency": "EUR"}', key=of_request)
    again = await acme.send(
        "POST", "/v1/programs", raw=b'{ "currency":"EUR","name":"\\u0041" }', key=of_request
    )
    assert again.content == first.content


async def test_validation_refusal_is_repeated_byte_for_byte(acme: Caller) -> None:
    of_request = key()
    first = await acme.send("POST", "/v1/programs", {"name": ""}, key=of_request)
    again = await acme.send("POST", "/v1/programs", {"name": ""}, key=of_request)
    assert (first.status_code, again.content) == (400, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["content-type"] == "application/problem+json"
    other = await acme.send("POST", "/v1/programs", {"name": "A", "currency": "EUR"}, key=of_request)
    assert other.json()["type"] == "/problems/idempotency-key-reused"


async def test_refusal_that_depends_on_state_is_not_stored(running: Installation, acme: Caller) -> None:
    """The same key succeeds after the state has changed, and that answer is stored."""
    card = await acme.funded_card()
    path = f"/v1/cards/{card['id']}"
    load = {"card_id": running.services.new_id(), "amount": {"amount": "1", "currency": "EUR"}}
    kept = "SELECT count(*) FROM idempotency"
    before = await running.services.pool.fetchval(kept)
    for method, at, body, status in (
        ("POST", "/v1/simulated-loads", load, 404),
        ("POST", "/v1/simulated-loads", load | {"amount": {"amount": "1", "currency": "USD"}}, 404),
        ("PATCH", path, {"state": "unactivated"}, 409),
        ("POST", "/v1/programs", {"name": "G", "currency": "EUR", "mode": "gateway"}, 409),
    ):
        of_request = key()
        for _ in range(2):
            refused = await acme.send(method, at, body, key=of_request)
            assert refused.status_code == status
            assert "idempotent-replayed" not in refused.headers
    assert await running.services.pool.fetchval(kept) == before
    await acme.patch(f"/v1/cardholders/{card['cardholder_id']}", {"status": "blocked"})
    issue = {"card_product_id": card["card_product_id"], "cardholder_id": card["cardholder_id"]}
    of_request = key()
    assert (await acme.post("/v1/cards", issue, 409, key=of_request))["status"] == 409
    await acme.patch(f"/v1/cardholders/{card['cardholder_id']}", {"status": "active"})
    made = await acme.post("/v1/cards", issue, key=of_request)
    assert await acme.post("/v1/cards", issue, key=of_request) == made


async def test_malformed_body_and_missing_scope_are_not_stored(running: Installation, acme: Caller) -> None:
    of_request = key()
    assert (await acme.send("POST", "/v1/programs", raw=b"{", key=of_request)).status_code == 400
    reader = await running.caller(acme.credentials.name, scopes=("programs:read",))
    body = {"name": "A", "currency": "EUR"}
    assert (await reader.send("POST", "/v1/programs", body, key=of_request)).status_code == 403
    assert (await acme.send("POST", "/v1/programs", body, key=of_request)).status_code == 201


@pytest.mark.parametrize("bad", ["", " ", "a b", "x" * 256, "caf\u00e9"])
async def test_invalid_key_is_refused(acme: Caller, bad: str) -> None:
    headers = {b"Idempotency-Key": bad.encode("latin-1"), b"Authorization": f"Bearer {acme.token}".encode()}
    response = await acme.http.post("/v1/programs", json={"name": "A", "currency": "EUR"}, headers=headers)
    assert response.json()["type"] == "/problems/idempotency-key-invalid"


async def test_longest_key_is_accepted_and_two_keys_are_refused(acme: Caller) -> None:
    body = {"name": "A", "currency": "EUR"}
    await acme.post("/v1/programs", body, key="!" * 255)
    headers = [("Idempotency-Key", "a"), ("Idempotency-Key", "b"), ("Authorization", f"Bearer {acme.token}")]
    response = await acme.http.post("/v1/programs", json=body, headers=headers)
    assert response.json()["type"] == "/problems/idempotency-key-invalid"


async def test_post_without_a_key_is_refused(acme: Caller) -> None:
    for method, path, body in await keyed_requests(acme):
        response = await acme.send(method, path, body, key=None)
        if method == "POST":
            assert response.status_code == 400
            assert response.json()["type"] == "/problems/idempotency-key-missing"
        else:
            assert response.status_code in {200, 204}


async def test_concurrent_repetitions_load_once(acme: Caller) -> None:
    card = await acme.funded_card("0.01")
    for _ in range(10):
        of_request = key()
        body = {"card_id": card["id"], "amount": {"amount": "1.00", "currency": "EUR"}}
        answers = await asyncio.gather(
            *(acme.send("POST", "/v1/simulated-loads", body, key=of_request) for _ in range(8))
        )
        settled = {answer.content for answer in answers if answer.status_code == 201}
        assert len(settled) == 1, [answer.text for answer in answers]
        assert all(
            answer.status_code == 201 or answer.json()["type"] == "/problems/idempotency-in-progress"
            for answer in answers
        )
    assert (await acme.get(f"/v1/cards/{card['id']}/balance"))["posted"] == "10.01"


@pytest.mark.parametrize("path", ["/v1/cards", "/v1/card-products"])
async def test_concurrent_repetitions_create_one_object(acme: Caller, path: str) -> None:
    body = next(body for method, of, body in await keyed_requests(acme) if (method, of) == ("POST", path))
    if path == "/v1/cards":
        programme = await acme.programme()
        product, holder = await acme.product(programme), await acme.cardholder(programme)
        body = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    before, of_request = len((await acme.get(path))["data"]), key()
    answers = await asyncio.gather(*(acme.send("POST", path, body, key=of_request) for _ in range(8)))
    assert len({answer.content for answer in answers if answer.status_code == 201}) == 1
    for answer in answers:
        if answer.status_code != 201:
            assert answer.json()["type"] == "/problems/idempotency-in-progress"
            assert answer.headers["retry-after"] == "1"
    assert len((await acme.get(path))["data"]) == before + 1


async def test_concurrent_repetitions_leave_no_unused_card_number(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card()
    count = "SELECT count(*) FROM pans p WHERE NOT EXISTS (SELECT 1 FROM cards c WHERE c.id = p.card_id)"
    before = await running.services.pool.fetchval(count)
    body = {"card_product_id": card["card_product_id"], "cardholder_id": card["cardholder_id"]}
    of_request = key()
    await asyncio.gather(*(acme.send("POST", "/v1/cards", body, key=of_request) for _ in range(8)))
    assert await running.services.pool.fetchval(count) == before


async def test_key_expires_after_a_day(running: Installation, acme: Caller) -> None:
    of_request = key()
    path = "/v1/card-products"
    programme = await acme.programme()
    body = (await keyed_requests(acme))[2][2] | {"programme_id": programme["id"]}
    first = await acme.post(path, body, key=of_request)
    await running.services.pool.execute(
        "UPDATE idempotency SET created_at = created_at - interval '25 hours'"
    )
    assert (await acme.post(path, body, key=of_request))["id"] != first["id"]


async def test_stored_answers_are_sealed(running: Installation, acme: Caller) -> None:
    await acme.programme(name="Canary programme")
    rows = await running.services.pool.fetch("SELECT body FROM idempotency")
    assert rows
    assert not any(b"Canary" in row["body"] or b"decsec_" in row["body"] for row in rows)


async def test_answer_that_a_shard_host_committed_first_is_replayed(
    running: Installation, acme: Caller
) -> None:
    """A refusal that races with a shard host's commit under the same key is dropped without an error."""
    services = running.services
    claim = IdempotencyClaim(uuid.uuid4().bytes * 2, uuid.uuid4().bytes * 2)
    sealed = services.vault.seal("idempotency", b"{}", claim.key_digest)
    insert = "INSERT INTO idempotency (key_digest, fingerprint, status, body) VALUES ($1, $2, 201, $3)"
    async with services.pool.acquire() as owner, owner.transaction():
        await owner.execute(insert, claim.key_digest, claim.fingerprint, sealed)
        keeping = asyncio.create_task(keep_refusal(services, claim, Response(b"{}", 404)))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'INSERT%'"
        )
        for _ in range(1_000):
            if await services.pool.fetchval(waiting):
                break
            await asyncio.sleep(0.01)
    with pytest.raises(Refusal, match="idempotency-in-progress"):
        await keeping
    stored = await recall(services, claim)
    assert stored is not None
    assert stored.status_code == 201
