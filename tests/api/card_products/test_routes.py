"""Card products over the API: create, retire, list, validate."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api.driver import Caller


async def test_created_product_is_returned_and_published(acme: Caller) -> None:
    programme = await acme.programme()
    controls = [
        {"kind": "per_txn_cap", "amount": "10"},
        {"kind": "mcc_allow", "values": ["5411", "5412"]},
        {"kind": "per_day_cap", "count": 3},
    ]
    product = await acme.product(
        programme, control_defaults=controls, kyc_flow="basic", network="mastercard", iin="510000"
    )
    assert product | {"id": "", "created_at": ""} == {
        "id": "",
        "programme_id": programme["id"],
        "name": "Virtual",
        "network": "mastercard",
        "currency": "EUR",
        "form_factor": "virtual",
        "iin": "510000",
        "control_defaults": [
            {"kind": "mcc_allow", "values": ["5411", "5412"]},
            {"kind": "per_txn_cap", "amount": "10.00"},
            {"kind": "per_day_cap", "count": 3},
        ],
        "kyc_flow": "basic",
        "status": "active",
        "created_at": "",
        "external_ref": None,
        "metadata": {},
    }
    assert await acme.get(f"/v1/card-products/{product['id']}") == product
    told = (await acme.get("/v1/events?types=card_product.created"))["data"]
    assert [event["data"] for event in told] == [product]


async def test_product_retired_twice_publishes_one_event(acme: Caller) -> None:
    product = await acme.product(await acme.programme())
    path = f"/v1/card-products/{product['id']}"
    retired = await acme.post(f"{path}/retire", status=200)
    assert retired == product | {"status": "retired"}
    assert await acme.post(f"{path}/retire", {}, status=200) == retired
    assert await acme.get(path) == retired
    assert len((await acme.get("/v1/events?types=card_product.retired"))["data"]) == 1
    await acme.post(f"{path}/retire", {"status": "active"}, status=400)


async def test_list_filters_products_by_programme(acme: Caller) -> None:
    first, second = await acme.programme(), await acme.programme()
    product = await acme.product(first)
    await acme.product(second)
    assert (await acme.get(f"/v1/card-products?programme_id={first['id']}"))["data"] == [product]


@pytest.mark.parametrize(
    ("fields", "pointer"),
    [
        ({"programme_id": "1"}, "/programme_id"),
        ({"network": "amex"}, "/network"),
        ({"form_factor": "metal"}, "/form_factor"),
        ({"iin": "4000"}, "/iin"),
        ({"iin": "400000000"}, "/iin"),
        ({"iin": "40000x"}, "/iin"),
        ({"iin": 400000}, "/iin"),
        ({"iin": "555500"}, "/iin"),
        ({"network": "mastercard"}, "/iin"),
        ({"network": "mastercard", "iin": "222099"}, "/iin"),
        ({"network": "mastercard", "iin": "272100"}, "/iin"),
        ({"network": "mastercard", "iin": "560000"}, "/iin"),
        ({"kyc_flow": "none"}, "/kyc_flow"),
        ({"control_defaults": None}, "/control_defaults"),
        ({"control_defaults": [{"kind": "per_day_cap", "count": 1}] * 33}, "/control_defaults"),
        ({"status": "active"}, "/status"),
    ],
)
async def test_invalid_product_is_refused_with_its_pointer(
    acme: Caller, fields: dict[str, Any], pointer: str
) -> None:
    body = {
        "programme_id": "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e",
        "name": "P",
        "network": "visa",
        "currency": "EUR",
        "form_factor": "virtual",
        "iin": "400000",
    }
    problem = await acme.post("/v1/card-products", body | fields, 400)
    assert [error["pointer"] for error in problem["errors"]] == [pointer]


async def test_product_in_another_currency_than_its_programme_is_refused(acme: Caller) -> None:
    programme = await acme.programme()
    body = {
        "programme_id": programme["id"],
        "name": "P",
        "network": "visa",
        "currency": "USD",
        "form_factor": "virtual",
        "iin": "400000",
    }
    assert (await acme.post("/v1/card-products", body, 400))["type"] == "/problems/currency-mismatch"


@pytest.mark.parametrize(
    ("network", "iin"),
    [("visa", "499999"), ("mastercard", "222100"), ("mastercard", "27209999"), ("mastercard", "559999")],
)
async def test_iin_within_the_ranges_of_the_network_is_accepted(acme: Caller, network: str, iin: str) -> None:
    product = await acme.product(await acme.programme(), network=network, iin=iin, kyc_flow=None)
    assert (product["iin"], product["kyc_flow"]) == (iin, None)


async def test_uppercase_ids_name_the_same_objects(acme: Caller) -> None:
    programme = await acme.programme()
    product = await acme.product({**programme, "id": programme["id"].upper()})
    assert product["programme_id"] == programme["id"]
    assert await acme.get(f"/v1/card-products/{product['id'].upper()}") == product
    listed = await acme.get(f"/v1/card-products?programme_id={programme['id'].upper()}")
    assert listed["data"] == [product]
    retire = "/v1/card-products/{}/retire"
    first = await acme.send("POST", retire.format(product["id"]), key="retire")
    again = await acme.send("POST", retire.format(product["id"].upper()), key="retire")
    assert (again.content, again.headers["Idempotent-Replayed"]) == (first.content, "true")
    await acme.get(f"/v1/cards?ids={product['id'].upper()}")
