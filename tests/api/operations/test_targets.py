"""URLs of webhook endpoints and decision endpoints are checked before the request writes any row."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.support.api.driver import Caller

REFUSED = [
    ("https://hooks.example.com:22/", "port"),
    ("https://localhost./", "host"),
    ("https://0x7f000001/", "host"),
    ("https://2130706433/", "host"),
    ("https://127.0.0.1/", "address"),
    ("https://[::1]/", "address"),
    ("https://[::ffff:169.254.169.254]/", "address"),
    ("https://[64:ff9b::a00:1]/", "address"),
    ("https://10.0.0.7:8443/hook", "address"),
    ("https://private.example.com/hook", "address"),
    ("https://nowhere.example.com/hook", "unresolvable"),
]
MALFORMED = [
    "http://hooks.example.com/",
    "ftp://hooks.example.com/",
    "https://user:password@hooks.example.com/",
    "https://hooks.example.com/#part",
    "https://hooks.example.com:port/",
    "https://",
    "hooks.example.com",
    "",
    "https://hooks.example.com/é",
    "https://hooks.example.com/" + "a" * 2_048,
]


async def given_to_each(acme: Caller, url: Any) -> list[tuple[str, httpx2.Response]]:
    """The answer of every operation that takes a URL, with the name of its JSON member."""
    endpoint, programme = await acme.endpoint(), await acme.programme()
    requests = [
        ("POST", "/v1/webhook-endpoints", {"url": url, "event_types": ["*"]}),
        ("PATCH", f"/v1/webhook-endpoints/{endpoint['id']}", {"url": url}),
        ("POST", "/v1/programs", {"name": "P", "currency": "EUR", "decision_url": url}),
        ("PATCH", f"/v1/programs/{programme['id']}", {"decision_url": url}),
    ]
    return [
        ("url" if "url" in body else "decision_url", await acme.send(method, path, body))
        for method, path, body in requests
    ]


@pytest.mark.parametrize(("url", "reason"), REFUSED)
async def test_refusal_of_a_target_does_not_reveal_the_network(acme: Caller, url: str, reason: str) -> None:
    for member, response in await given_to_each(acme, url):
        problem = response.json()
        assert (response.status_code, problem["type"]) == (400, "/problems/target-refused"), response.text
        assert [(error["pointer"], error["code"]) for error in problem["errors"]] == [(f"/{member}", reason)]
        for secret in ("10.0.0.7", "127.0.0.1", url):
            assert secret not in response.text
    assert len((await acme.get("/v1/webhook-endpoints"))["data"]) == 1, "a refused endpoint was stored"


@pytest.mark.parametrize("url", MALFORMED, ids=lambda url: ascii(url)[:40])
async def test_malformed_or_insecure_url_fails_validation(acme: Caller, url: str) -> None:
    for member, response in await given_to_each(acme, url):
        problem = response.json()
        assert (response.status_code, problem["type"]) == (400, "/problems/validation-failed"), url
        assert problem["errors"][0]["pointer"] == f"/{member}"


async def test_public_url_is_accepted(acme: Caller) -> None:
    for url in ("https://hooks.example.com/a?b=c", "https://93.184.216.34:8443/", "https://1.1.1.1/"):
        for _, response in await given_to_each(acme, url):
            assert response.status_code in {200, 201}, response.text


async def test_refused_target_is_not_stored_under_its_key(acme: Caller) -> None:
    body = {"url": "https://nowhere.example.com/", "event_types": ["*"]}
    for _ in range(2):
        response = await acme.send("POST", "/v1/webhook-endpoints", body, key="the-key-of-this-test")
        assert response.status_code == 400
        assert "idempotent-replayed" not in response.headers
