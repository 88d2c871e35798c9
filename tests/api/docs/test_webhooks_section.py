"""The webhooks of the API description: all event types, valid OpenAPI 3.1, examples that fit."""

from __future__ import annotations

import re
from typing import Any

import jsonschema_rs
import pytest
from jsonschema import Draft202012Validator, FormatChecker
from schemathesis.specs.openapi.definitions import OPENAPI_31

from api.docs.webhooks import webhooks
from engine.webhooks.catalogue import CATALOGUE
from engine.webhooks.signature import HEADER, sign
from tests.support.api.driver import Caller

DELIVERIES = {type_: entry["post"] for type_, entry in webhooks().items()}


async def test_description_is_valid_openapi(acme: Caller) -> None:
    document = (await acme.http.get("/docs/openapi.json")).json()
    jsonschema_rs.validator_for(OPENAPI_31).validate(document)
    assert document["webhooks"].keys() == CATALOGUE.keys()
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    names = [each["operationId"] for each in [*operations, *DELIVERIES.values()]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("type_", sorted(CATALOGUE))
def test_example_fits_the_schema_of_its_type(type_: str) -> None:
    content = DELIVERIES[type_]["requestBody"]["content"]["application/json"]
    assert content["schema"]["properties"]["data"] == CATALOGUE[type_].schema
    Draft202012Validator.check_schema(content["schema"])
    judge = Draft202012Validator(content["schema"], format_checker=FormatChecker())
    judge.validate(content["examples"]["example"]["value"])
    assert not judge.is_valid({})


def test_signature_header_is_described_as_it_is_sent() -> None:
    (parameter,) = DELIVERIES["card.created"]["parameters"]
    assert (parameter["name"], parameter["in"], parameter["required"]) == (HEADER, "header", True)
    for secrets in (["whsec_a"], ["whsec_a", "whsec_b"]):
        assert re.fullmatch(parameter["schema"]["pattern"], sign(b"{}", secrets, 1795256130))
    assert re.fullmatch(parameter["schema"]["pattern"], parameter["example"])


def test_planned_types_are_described_as_planned() -> None:
    for type_, delivery in DELIVERIES.items():
        assert ("Planned" in delivery["description"]) == (CATALOGUE[type_].status == "planned")


def test_responses_are_success_and_failure() -> None:
    answers: Any = DELIVERIES["card.created"]["responses"]
    assert answers.keys() == {"2XX", "default"}
    assert "10 seconds" in answers["2XX"]["description"]
