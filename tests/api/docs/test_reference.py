"""The reference page shows every operation, and its examples fit their schemas."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from jsonschema import Draft202012Validator

from api.access.oauth import OPERATION_NAME as TOKEN_OPERATION
from api.docs.examples import answer_content, recorded
from api.docs.reference import curl, render
from api.http.problems import PROBLEMS
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


@pytest.fixture
def document(running: Installation) -> dict[str, Any]:
    """The API description."""
    described: dict[str, Any] = running.app.openapi()
    return described


def described(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of each operation."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            yield path, method, operation


def judge(schema: dict[str, Any], document: dict[str, Any]) -> Draft202012Validator:
    return Draft202012Validator({**schema, "components": document["components"]})


async def test_every_operation_has_a_recorded_example(document: dict[str, Any]) -> None:
    names = {operation["operationId"] for _, _, operation in described(document)}
    assert recorded().keys() == names


async def test_examples_fit_their_schemas(document: dict[str, Any]) -> None:
    judged = 0
    for path, method, operation in described(document):
        contents = list(operation.get("requestBody", {}).get("content", {}).values())
        for response in operation["responses"].values():
            contents += response.get("content", {}).values()
        for content in contents:
            for name, example in content["examples"].items():
                faults = list(judge(content["schema"], document).iter_errors(example["value"]))
                assert not faults, (method, path, name, faults[0].message)
                judged += 1
        for parameter in operation.get("parameters", ()):
            if "example" in parameter:
                judge(parameter["schema"], document).validate(parameter["example"])
            else:
                assert not parameter["required"], (method, path, parameter["name"])
    assert judged > 500


async def test_success_examples_equal_the_recorded_responses(document: dict[str, Any]) -> None:
    stored = recorded()
    for _, _, operation in described(document):
        example = stored[operation["operationId"]]
        content = answer_content(operation["responses"][str(example["status"])])
        shown = content["examples"]["example"]["value"] if content else None
        assert shown == example["response"]
        successes = [status for status in operation["responses"] if int(status) < 400]
        assert successes == [str(example["status"])]


async def test_page_shows_every_operation_and_object(acme: Caller, document: dict[str, Any]) -> None:
    response = await acme.http.get("/docs/reference")
    assert response.headers["content-type"].startswith("text/html")
    page = response.text
    anchors = set(re.findall(r'<section id="(\w+)">', page))
    assert anchors == {operation["operationId"] for _, _, operation in described(document)} | set(
        document["components"]["schemas"]
    )
    links = set(re.findall(r'href="#(\w+)"', page))
    assert links <= anchors | {"objects", "content"}
    problems = set(re.findall(r'href="\.\./problems/([\w-]+)"', page))
    assert problems
    assert problems <= PROBLEMS.keys()
    # Links are relative, so the page works under a path prefix; scripts and styles are files of this host.
    assert not re.search(r'(src|href)="(https?:|/)', page)
    assert not re.search(r"<script>|<style|style=|onclick", page)


async def test_page_shows_python_beside_curl(document: dict[str, Any]) -> None:
    page = render(document)
    names = {operation["operationId"] for _, _, operation in described(document)}
    assert page.count('<pre class="curl') == page.count('<pre class="python') == len(names)
    assert "client.cards.create(" in page


async def test_operation_without_a_python_call_shows_curl_alone(document: dict[str, Any]) -> None:
    operation = document["paths"]["/v1/cards"]["get"] | {"operationId": "added_later"}
    page = render(document | {"paths": {"/v1/cards": {"get": operation}}})
    assert '<pre class="curl' in page
    assert '<pre class="python' not in page


async def test_markup_in_the_description_is_escaped(document: dict[str, Any]) -> None:
    operation = document["paths"]["/v1/cards"]["get"] | {"summary": "<b>&", "description": "`<i>` x"}
    page = render(document | {"paths": {"/v1/cards": {"get": operation}}})
    assert "&lt;b&gt;&amp;" in page
    assert "<code>&lt;i&gt;</code> x" in page


async def test_curl_commands_send_the_recorded_requests(document: dict[str, Any]) -> None:
    stored = recorded()
    for path, method, operation in described(document):
        words = shlex.split(curl(path, method, operation).replace("\\\n", " "))
        example = stored[operation["operationId"]]
        address = urlsplit(next(word for word in words if word.startswith("$BASE")).removeprefix("$BASE"))
        assert address.path == path.replace("{id}", str(example["id"]))
        assert dict(parse_qsl(address.query)) == example["query"]
        sent = words[words.index("-d") + 1] if "-d" in words else None
        if operation["operationId"] == TOKEN_OPERATION:
            assert dict(parse_qsl(str(sent))) == example["request"]
        elif example["request"] is not None:
            assert json.loads(str(sent)) == example["request"]
        # Without -X, curl sends a POST if there is a body and a GET otherwise.
        assert ("-X" in words) or (method == "get") is (sent is None), path


async def test_every_tag_has_a_description(document: dict[str, Any]) -> None:
    used = {tag for _, _, operation in described(document) for tag in operation["tags"]}
    assert {tag["name"] for tag in document["tags"]} == used
    assert all(tag["description"] for tag in document["tags"])
