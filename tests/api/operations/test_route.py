"""The order of the checks of a request: the first one that fails determines the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest

from actors.ids import new_id
from api.access.permissions import PERMISSIONS
from api.app import operations
from tests.support.api.driver import FRESH, Caller
from tests.support.api.stack import Installation

PROGRAMMES = "/v1/programs"
VALID = {"name": "Everyday", "currency": "EUR"}


async def refused(caller: Caller, method: str, path: str, raw: bytes, **options: Any) -> tuple[int, str]:
    """Status and slug of the refusal of one request."""
    response = await caller.send(method, path, raw=raw, **options)
    return response.status_code, response.json()["type"].rpartition("/")[2]


async def test_unknown_caller_is_refused_before_the_body_is_read(acme: Caller) -> None:
    for raw in (b"{", b" " * 70_000):
        headers = {"Authorization": "Bearer unknown"}
        assert await refused(acme, "POST", PROGRAMMES, raw, headers=headers) == (401, "unauthorized")


async def test_missing_permission_comes_before_the_body(running: Installation, tenant: str) -> None:
    reader = await running.caller(tenant, scopes=("programs:read",))
    assert await refused(reader, "POST", PROGRAMMES, b"{") == (403, "insufficient-scope")


@pytest.mark.parametrize(
    ("raw", "key", "slug"),
    [
        (b"{", None, "invalid-json"),
        (b'{"name": 5}', None, "idempotency-key-missing"),
        (b'{"name": 5}', "not visible", "idempotency-key-invalid"),
        (b'{"name": 5}', FRESH, "validation-failed"),
    ],
)
async def test_json_is_checked_before_the_key_and_the_key_before_the_model(
    acme: Caller, raw: bytes, key: str | None, slug: str
) -> None:
    assert await refused(acme, "POST", PROGRAMMES, raw, key=key) == (400, slug)


async def test_stored_answer_is_replayed_before_validation(acme: Caller) -> None:
    key = new_id()
    first = await acme.send("POST", PROGRAMMES, {"name": 5}, key=key)
    again = await acme.send("POST", PROGRAMMES, {"name": 5}, key=key)
    other = await acme.send("POST", PROGRAMMES, VALID, key=key)
    assert (first.status_code, again.content) == (400, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert other.json()["type"].endswith("/idempotency-key-reused")


@pytest.mark.parametrize(
    ("raw", "answer"), [(b'{"bogus": 1}', (400, "validation-failed")), (b'{"name": "x"}', (404, "not-found"))]
)
async def test_body_is_validated_before_the_id_in_the_path(
    acme: Caller, raw: bytes, answer: tuple[int, str]
) -> None:
    assert await refused(acme, "PATCH", f"{PROGRAMMES}/no-id", raw) == answer


async def test_submitted_data_are_validated_before_the_id_in_the_path(acme: Caller) -> None:
    raw = json.dumps({"date_of_birth": "2098-01-01"}).encode()
    path = "/v1/kyc/checks/no-id/submissions"
    assert await refused(acme, "POST", path, raw) == (400, "validation-failed")


@pytest.mark.parametrize(
    ("query", "pointer"), [("?bogus=1", "/bogus"), ("?limit=1&limit=2", None), ("?limit=0", "/limit")]
)
async def test_query_of_a_list_is_validated(acme: Caller, query: str, pointer: str | None) -> None:
    body = await acme.get(PROGRAMMES + query, 400)
    assert [error["pointer"] for error in body.get("errors", ())] == ([pointer] if pointer else [])


async def test_operation_without_a_query_takes_no_parameter(acme: Caller) -> None:
    body = await acme.get("/v1/event-types?bogus=1", 400)
    assert body["errors"] == [
        {"pointer": "/bogus", "code": "unknown_field", "detail": "There is no such member."}
    ]


@pytest.mark.parametrize("raw", [b"", b"null", b"{}"])
async def test_absent_body_is_an_empty_object_where_no_member_is_required(acme: Caller, raw: bytes) -> None:
    assert await refused(acme, "POST", f"/v1/card-products/{new_id()}/retire", raw) == (404, "not-found")
    assert await refused(acme, "DELETE", f"/v1/cardholders/{new_id()}", raw) == (404, "not-found")


@pytest.mark.parametrize("media_type", ["application/json", "application/x+json", "text/x+json", None])
async def test_json_media_types_are_accepted(acme: Caller, media_type: str | None) -> None:
    headers = {"Authorization": f"Bearer {acme.token}", "Idempotency-Key": new_id()}
    if media_type:
        headers["Content-Type"] = media_type
    response = await acme.http.post(PROGRAMMES, content=json.dumps(VALID).encode(), headers=headers)
    assert response.status_code == 201


async def test_head_is_answered_as_get(acme: Caller) -> None:
    response = await acme.send("HEAD", PROGRAMMES)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"


def test_every_operation_has_a_permission_and_every_permission_an_operation() -> None:
    assert {operation.name for operation in operations()} == set(PERMISSIONS)
