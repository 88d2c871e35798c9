"""The published API description is complete, and the served API conforms to it (guarantee G12)."""

from __future__ import annotations

import asyncio
import os
import re
import uuid
from functools import cache
from typing import Any
from urllib.parse import urljoin

import pytest
import requests
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from api.app import operations
from api.http.problems import PROBLEMS
from engine.scopes import SCOPES
from tests.support.api.authorization_rules import rule_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served

# Number of valid requests for each operation, and of invalid ones.
EXAMPLES = 220 if "STANCHION_CHAOS" in os.environ else 5
TOKEN = "POST /v1/oauth/token"
KYC_OPERATIONS = ("", "/submissions", "/review", "/capture-sessions")
RULE_OPERATIONS = ("", "/versions", "/shadow", "/activate", "/retire", "/report")
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
CONFIG = SchemathesisConfig.from_dict(
    # The defaults lack 413, the answer to a generated body above the limit.
    {"checks": {"negative_data_rejection": {"expected-statuses": ["4xx", "5xx"]}}}
)


async def own_ids(acme: Caller) -> dict[str, str]:
    """Ids of existing objects, by the path that takes the id or the body member that holds it."""
    card = await acme.funded_card()
    spend = await acme.spend(card, "1.00")
    transfer = (await acme.get("/v1/transfers?limit=1"))["data"][0]
    event = (await acme.get("/v1/events?limit=1"))["data"][0]
    endpoint = await acme.endpoint()
    check = await acme.post("/v1/kyc/checks", {"cardholder_id": card["cardholder_id"], "flow_key": "full"})
    window = {"from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z"}
    export = await acme.post("/v1/exports", {"kind": "transactions", **window}, 202)
    rule = await acme.post("/v1/authorization-rules", rule_of("card", card["id"]))
    backtest = await acme.post(
        "/v1/backtests",
        {
            "scope": {"type": "card", "id": card["id"]},
            "change": {"controls": {"remove": ["mcc_deny"]}},
            **window,
        },
        202,
    )
    return {
        "programme_id": card["programme_id"],
        "card_product_id": card["card_product_id"],
        "cardholder_id": card["cardholder_id"],
        "card_id": card["id"],
        "/v1/programs/{id}": card["programme_id"],
        "/v1/programs/{id}/stip-policy": card["programme_id"],
        "/v1/programs/{id}/stip-activity": card["programme_id"],
        "/v1/programs/{id}/outages": card["programme_id"],
        "/v1/card-products/{id}": card["card_product_id"],
        "/v1/card-products/{id}/retire": card["card_product_id"],
        "/v1/cardholders/{id}": card["cardholder_id"],
        "/v1/cards/{id}": card["id"],
        "/v1/cards/{id}/balance": card["id"],
        "/v1/cards/{id}/cvv2": card["id"],
        "/v1/cards/{id}/evaluate": card["id"],
        "/v1/cards/{id}/headroom": card["id"],
        "/v1/cards/{id}/replace": card["id"],
        "/v1/cards/{id}/reveal-sessions": card["id"],
        "/v1/exports/{id}": export["id"],
        **{f"/v1/authorization-rules/{{id}}{operation}": rule["id"] for operation in RULE_OPERATIONS},
        **{f"/v1/backtests/{{id}}{part}": backtest["id"] for part in ("", "/flips", "/flips.csv")},
        "account_id": card["funding_account_id"],
        "/v1/accounts/{id}": card["funding_account_id"],
        "/v1/transfers/{id}": transfer["id"],
        "/v1/transfers/{id}/reverse": transfer["id"],
        "/v1/transactions/{id}": spend["transaction_id"],
        "/v1/transactions/{id}/replay": spend["transaction_id"],
        "/v1/simulated-spends/{id}": spend["simulation_id"],
        **{
            f"/v1/simulated-spends/{{id}}/{follow_up}": spend["simulation_id"]
            for follow_up in ("increment", "reverse", "clear", "expire")
        },
        "/v1/events/{id}": event["id"],
        "/v1/events/{id}/redeliver": event["id"],
        "endpoint_id": endpoint["id"],
        **{f"/v1/kyc/checks/{{id}}{operation}": check["id"] for operation in KYC_OPERATIONS},
        "/v1/webhook-endpoints/{id}": endpoint["id"],
        "/v1/webhook-endpoints/{id}/deliveries": endpoint["id"],
        "/v1/webhook-endpoints/{id}/rotate-secret": endpoint["id"],
    }


def with_own(case: Any, ids: dict[str, str]) -> None:
    """Set the ids in ``case`` to those of existing objects, so that the request gets past the 404."""
    if case.path in ids:
        case.path_parameters = {"id": ids[case.path]}
    if isinstance(case.body, dict):
        case.body = {name: ids.get(name, value) for name, value in case.body.items()}


@cache
def schema_of(app: FastAPI) -> Any:
    """The description; reading it takes longer than the requests of an operation."""
    return schemathesis.openapi.from_dict(app.openapi(), config=CONFIG)


def run_cases(
    app: FastAPI, base_url: str, token: str, ids: dict[str, str], label: str, mode: GenerationMode
) -> None:
    """Send generated requests for one operation and check every response against the description."""
    operation = schema_of(app).find_operation_by_label(label)
    assert operation is not None
    checks = CHECKS + ([negative_data_rejection] if mode is GenerationMode.NEGATIVE else [])

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), known=st.booleans())
    def run(case: Any, known: bool) -> None:
        if known and mode is GenerationMode.POSITIVE:
            with_own(case, ids)
        headers = {"Authorization": f"Bearer {token}"} if label != TOKEN else {}
        if "Idempotency-Key" in (case.headers or {}) and mode is GenerationMode.POSITIVE:
            headers["Idempotency-Key"] = str(uuid.uuid4())
        with requests.Session() as session:
            response = case.call(base_url=base_url, headers=headers, session=session)
        case.validate_response(response, checks=checks)

    run()


def labels() -> list[str]:
    """The label of every published operation, such as ``GET /v1/cards``."""
    own = [operation for operation in operations() if operation.include_in_schema]
    return [TOKEN, *(f"{operation.method} {operation.path}" for operation in own)]


def cases() -> list[Any]:
    """Each operation with valid and with invalid requests; without input there are no invalid ones."""
    modes = {"valid": GenerationMode.POSITIVE, "invalid": GenerationMode.NEGATIVE}
    return [
        pytest.param(label, mode, id=f"{label}-{name}")
        for label in labels()
        for name, mode in modes.items()
        if (label, name) not in {("GET /v1/event-types", "invalid"), ("GET /v1/links", "invalid")}
    ]


@pytest.mark.parametrize(("label", "mode"), cases())
async def test_responses_conform_to_the_description(
    running: Installation, tenant: str, label: str, mode: GenerationMode
) -> None:
    acme = await running.caller(tenant, scopes=SCOPES)
    ids = await own_ids(acme) if mode is GenerationMode.POSITIVE else {}
    async with served(running.app) as base_url:
        await asyncio.to_thread(run_cases, running.app, base_url, acme.token, ids, label, mode)


async def test_document_lists_every_operation_and_scope(acme: Caller, running: Installation) -> None:
    document = (await acme.http.get("/docs/openapi.json")).json()
    assert document["openapi"].startswith("3.1")
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    served_ = {
        (operation.method, operation.path) for operation in operations() if operation.include_in_schema
    }
    assert described == served_ | {("POST", "/v1/oauth/token")}
    flow = document["components"]["securitySchemes"]["oauth2"]["flows"]["clientCredentials"]
    assert set(flow["scopes"]) == set(SCOPES)
    for reference in set(_references(document)):
        assert reference.rpartition("/")[2] in document["components"][reference.split("/")[2]], reference


def _references(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["$ref"]] if isinstance(value.get("$ref"), str) else []
        return own + [found for member in value.values() for found in _references(member)]
    if isinstance(value, list):
        return [found for member in value for found in _references(member)]
    return []


async def test_each_operation_documents_its_refusals(acme: Caller) -> None:
    document = (await acme.http.get("/docs/openapi.json")).json()
    for path, methods in document["paths"].items():
        for described in methods.values():
            responses = described["responses"]
            assert {"400", "401", "429", "500"} <= set(responses), path
            for status, response in responses.items():
                assert "X-Request-Id" in response["headers"]
                if int(status) >= 400:
                    shown = response["content"]["application/problem+json"]["examples"]
                    assert all(str(PROBLEMS[slug].status) == status for slug in shown)


async def test_request_examples_are_valid(running: Installation, tenant: str) -> None:
    acme = await running.caller(tenant, role="owner", scopes=SCOPES)
    document = (await acme.http.get("/docs/openapi.json")).json()
    for operation in operations():
        described = document["paths"].get(operation.path, {}).get(operation.method.lower(), {})
        if "requestBody" in described:
            content = described["requestBody"]["content"]["application/json"]
            sample = content["examples"]["example"]["value"]
            response = await acme.send(
                operation.method, operation.path.replace("{id}", str(uuid.uuid4())), sample
            )
            assert response.status_code == 404 or response.status_code < 300 or not sample, response.text


@pytest.mark.parametrize("path", ["/docs", "/docs/reference"])
async def test_page_loads_assets_from_its_own_host_only(acme: Caller, path: str) -> None:
    answer = await acme.http.get(path)
    policy = answer.headers["content-security-policy"]
    assert "script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self';" in policy
    assets = re.findall(r'(?:src|href)="((?:docs/)?(?:assets|static)/[^"]+)"', answer.text)
    assert len(assets) >= 4
    for asset in assets:
        assert (await acme.http.get(urljoin(path, asset))).status_code == 200, asset
