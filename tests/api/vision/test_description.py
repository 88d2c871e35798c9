"""The vision host's API description: valid OpenAPI 3.1, complete, and consistent with the host's answers."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import jsonschema_rs
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.specs.openapi.definitions import OPENAPI_31
from starlette.routing import Route

from api.http.problems import PROBLEMS
from api.vision.app import create_app
from api.vision.description import OPENAPI_PATH, describe
from tests.api.docs.test_description import CHECKS, EXAMPLES
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation, served
from tests.support.api.vision.applicant import (
    BIND,
    EVIDENCE,
    SESSION,
    bind,
    open_session,
    send_picture,
    vision_host,
)

DOCUMENT = describe()
PICTURE_PATH = EVIDENCE + "{name}"


def operation(path: str) -> dict[str, Any]:
    described: dict[str, Any] = DOCUMENT["paths"][path]["post"]
    return described


def judge(path: str, answer: httpx2.Response) -> None:
    """Validate ``answer`` against the description of the operation at ``path``."""
    described = operation(path)["responses"][str(answer.status_code)]
    media_type = answer.headers["content-type"].partition(";")[0]
    schema = described["content"][media_type]["schema"]
    Draft202012Validator({**schema, "components": DOCUMENT["components"]}).validate(answer.json())
    if answer.status_code >= 400:
        slug = answer.json()["type"].rpartition("/")[2]
        assert slug in described["content"][media_type]["examples"]


async def test_description_is_served_and_is_valid_openapi(running: Installation) -> None:
    async with vision_host(running) as http:
        document = (await http.get(OPENAPI_PATH)).json()
    assert document == DOCUMENT
    jsonschema_rs.validator_for(OPENAPI_31).validate(document)


def test_description_covers_every_route_of_the_host(running: Installation) -> None:
    routes = [route for route in create_app(running.services).routes if isinstance(route, Route)]
    served_ = {route.path for route in routes if route.path.startswith("/v1/")}
    assert served_ == DOCUMENT["paths"].keys()


def test_examples_match_their_schemas() -> None:
    for path in DOCUMENT["paths"]:
        described = operation(path)
        contents = list(described["requestBody"]["content"].values())
        contents += [
            each for answer in described["responses"].values() for each in answer["content"].values()
        ]
        for content in contents:
            for slug, example in content.get("examples", {}).items():
                schema = {**content["schema"], "components": DOCUMENT["components"]}
                Draft202012Validator(schema).validate(example["value"])
                assert slug == "example" or slug in PROBLEMS


async def test_answers_match_the_description(running: Installation, acme: Caller) -> None:
    session = await open_session(acme)
    token = {"capture_session_token": session["capture_session_token"]}
    async with vision_host(running) as http:
        answers = [
            (SESSION, await http.post(SESSION, json=token)),
            (PICTURE_PATH, await send_picture(http, session, "document_evidence")),
            (BIND, await bind(http, session, "library_card")),
            (BIND, await bind(http, session)),
            (PICTURE_PATH, await send_picture(http, session, "document_evidence")),
            (PICTURE_PATH, await send_picture(http, session, "selfie", b"text")),
            (PICTURE_PATH, await send_picture(http, session, "portrait")),
            (PICTURE_PATH, await send_picture(http, session, "selfie", said="image/gif")),
            (BIND, await bind(http, session)),
            (SESSION, await http.post(SESSION, json={"capture_session_token": "unknown"})),
            (SESSION, await http.post(SESSION, json={})),
        ]
    statuses = [answer.status_code for _, answer in answers]
    assert statuses == [200, 409, 400, 200, 200, 400, 404, 415, 400, 404, 400]
    for path, answer in answers:
        judge(path, answer)


@pytest.mark.parametrize("path", [BIND, SESSION])
async def test_answers_to_generated_requests_match_the_description(
    running: Installation, acme: Caller, path: str
) -> None:
    session = await open_session(acme)
    async with served(create_app(running.services)) as base_url:
        await asyncio.to_thread(run_cases, base_url, path, session["capture_session_token"])


def run_cases(base_url: str, path: str, token: str) -> None:
    found = schemathesis.openapi.from_dict(DOCUMENT).find_operation_by_label(f"POST {path}")
    assert found is not None

    @settings(
        max_examples=min(EXAMPLES, 40),
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=found.as_strategy(generation_mode=GenerationMode.POSITIVE), known=st.booleans())
    def run(case: Any, known: bool) -> None:
        if known and isinstance(case.body, dict):
            case.body["capture_session_token"] = token
        with requests.Session() as session:
            response = case.call(base_url=base_url, session=session)
        case.validate_response(response, checks=CHECKS)

    run()
