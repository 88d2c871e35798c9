"""Cardholders over the API: create, list, validate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.driver import Caller


async def test_created_cardholder_is_returned(acme: Caller) -> None:
    programme = await acme.programme()
    address = {"line1": "1 Main St", "city": "Cork", "postcode": "T12", "country": "IE"}
    holder = await acme.cardholder(
        programme, phone="+353861234567", date_of_birth="1990-05-17", address=address, external_ref="u-1"
    )
    assert holder | {"id": "", "created_at": "", "updated_at": ""} == {
        "id": "",
        "programme_id": programme["id"],
        "given_name": "Ada",
        "family_name": "Lovelace",
        "email": "ada@example.com",
        "phone": "+353861234567",
        "date_of_birth": "1990-05-17",
        "address": address | {"line2": None},
        "external_ref": "u-1",
        "status": "active",
        "kyc_state": None,
        "created_at": "",
        "updated_at": "",
        "erased_at": None,
        "metadata": {},
    }
    assert await acme.get(f"/v1/cardholders/{holder['id']}") == holder


async def test_list_filters_by_programme_and_external_ref(acme: Caller) -> None:
    first, second = await acme.programme(), await acme.programme()
    ada, bob = await acme.cardholder(first), await acme.cardholder(second, external_ref="b")
    assert (await acme.get("/v1/cardholders"))["data"] == [bob, ada]
    assert (await acme.get(f"/v1/cardholders?programme_id={first['id']}"))["data"] == [ada]
    assert (await acme.get("/v1/cardholders?external_ref=b"))["data"] == [bob]


async def test_created_event_carries_no_personal_data(acme: Caller) -> None:
    holder = await acme.cardholder(await acme.programme(), given_name="Canary", email="canary@example.com")
    response = await acme.send("GET", "/v1/events?types=cardholder.created")
    assert response.json()["data"][0]["data"]["cardholder_id"] == holder["id"]
    assert "anary" not in response.text


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"given_name": ""}, "/given_name"),
        ({"email": "nobody"}, "/email"),
        ({"email": "a@b@c"}, "/email"),
        ({"email": "a b@c"}, "/email"),
        ({"email": None}, "/email"),
        ({"phone": "0861234567"}, "/phone"),
        ({"phone": "+0861234567"}, "/phone"),
        ({"date_of_birth": "1990-02-30"}, "/date_of_birth"),
        ({"date_of_birth": "17.05.1990"}, "/date_of_birth"),
        ({"date_of_birth": 19900517}, "/date_of_birth"),
        ({"address": {}}, "/address/line1"),
        ({"address": {"line1": "a", "city": "b", "postcode": "c", "country": "XX"}}, "/address/country"),
        ({"address": "1 Main St"}, "/address"),
        ({"status": "blocked"}, "/status"),
        ({"kyc_state": "passed"}, "/kyc_state"),
    ],
)
async def test_invalid_cardholder_is_refused_with_its_pointer(
    acme: Caller, fields: dict[str, Any], pointer: str
) -> None:
    body = {
        "programme_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
        "given_name": "A",
        "family_name": "B",
        "email": "a@b.example",
    }
    problem = await acme.post("/v1/cardholders", body | fields, 400)
    assert problem["errors"][0]["pointer"] == pointer
