"""The root page of both hosts, the headers of every response, and refused host names and time zones."""

from __future__ import annotations

import httpx2
import pytest

from api.vision.app import create_app as create_vision_app
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

HTML = {"Accept": "text/html,application/xhtml+xml"}


async def test_api_root_links_to_pages_that_exist(running: Installation) -> None:
    answer = await running.http.get("/")
    assert answer.headers["content-type"] == "application/json"
    links = answer.json()["links"]
    page = await running.http.get("/", headers=HTML)
    assert page.headers["content-type"].startswith("text/html")
    for path in links.values():
        assert f'href="{path}"' in page.text
        assert (await running.http.get(path, headers=HTML, follow_redirects=True)).status_code == 200, path


async def test_vision_root_identifies_the_capture_host(running: Installation) -> None:
    transport = httpx2.ASGITransport(app=create_vision_app(running.services))
    async with httpx2.AsyncClient(transport=transport, base_url="http://vision.test") as http:
        assert (await http.get("/")).json()["links"] == {"health": "/healthz"}
        assert "pictures of documents" in (await http.get("/", headers=HTML)).text


@pytest.mark.parametrize(
    "path", ["/", "/v1/cards", "/nowhere", "/docs", "/docs/reference", "/problems", "/console", "/healthz"]
)
async def test_every_response_carries_security_headers(running: Installation, path: str) -> None:
    headers = (await running.http.get(path, headers=HTML)).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert "frame-ancestors 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    "hosts", [["a.test", "b.test"], ["a.test", "a.test"], ["http://["], ["a b"], ["a/b"], ["a.test:x"]]
)
async def test_broken_host_header_is_refused(acme: Caller, hosts: list[str]) -> None:
    headers = [("Host", host) for host in hosts]
    answer = await acme.http.get("/healthz", headers=headers)
    assert answer.status_code == 400
    assert answer.json()["type"] == "/problems/malformed-request"


@pytest.mark.parametrize("host", ["a.test", "a.test:8000", "127.0.0.1:80", "[::1]:8000", "[::1]", "a_b.test"])
async def test_host_name_or_address_is_accepted(acme: Caller, host: str) -> None:
    assert (await acme.http.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize("zone", ["localtime", "posixrules", "Factory", "posix/UTC", "../UTC", "", "utc "])
async def test_unknown_time_zone_is_refused(acme: Caller, zone: str) -> None:
    body = {"name": "Everyday", "currency": "EUR", "timezone": zone}
    refusal = await acme.post("/v1/programs", body, 400)
    assert refusal["type"] == "/problems/validation-failed"
