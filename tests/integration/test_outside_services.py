"""A whole installation with an OpenID Connect provider and an OpenTelemetry collector.

The provider signs a person in, in a real browser if Chromium is installed. The collector gets traces whose
spans come from several processes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx2
import pytest
from playwright.async_api import expect

from ops.supervision.running_installation import RunningInstallation
from tests.support.actors.otlp import Collector, ReceivedSpan, collector
from tests.support.api.console.openid_server import CLIENT_ID, CLIENT_SECRET, OpenIdServer, openid_server
from tests.support.api.driver import Caller
from tests.support.api.vision.browser import MILLISECONDS_MAX, browser, chromium
from tests.support.integration.stack import Stack, until

PERSON = {
    "email": "ada@outside.example",
    "name": "Ada Lovelace",
    "role": "admin",
    "modes": ["test"],
    "reveal": False,
}
SIGN_IN = "/console/sign-in/openid"
STAGES = ("router", "host", "commit")
expect.set_options(timeout=MILLISECONDS_MAX)


@asynccontextmanager
async def started(folder: Path, provider: OpenIdServer, received: Collector) -> AsyncIterator[Stack]:
    """An installation that knows both servers."""
    settings = {
        "STANCHION_AUTO_CLEAR_SECONDS": "0",
        "STANCHION_OIDC_ISSUER": provider.issuer,
        "STANCHION_OIDC_CLIENT_ID": CLIENT_ID,
        "STANCHION_OIDC_CLIENT_SECRET": CLIENT_SECRET,
        "STANCHION_OTLP_ENDPOINT": received.url,
    }
    stack = Stack(RunningInstallation(folder / "var", settings))
    # In a thread: the installation already talks to the servers, which this loop runs.
    await asyncio.to_thread(stack.start)
    try:
        provider.redirect_uri = f"{stack.record['base_url']}{SIGN_IN}/callback"
        await until(stack.healthy, "all processes serve")
        yield stack
    finally:
        await asyncio.to_thread(stack.stop)


def chain(spans: list[ReceivedSpan], first: ReceivedSpan) -> list[ReceivedSpan]:
    """``first`` and its descendants through ``STAGES``, as far as they have arrived."""
    found = [first]
    for name in STAGES:
        child = next(
            (each for each in spans if each.name == name and each.parent_id == found[-1].span_id), None
        )
        if child is None:
            break
        found.append(child)
    return found


async def assert_traced(received: Collector, name: str, attribute: str, value: str, process: str) -> None:
    """Wait until the span ``name`` with this attribute has arrived with all its stages, and check that they
    are one trace through ``process`` and a shard host."""
    found: list[ReceivedSpan] = []

    def complete() -> bool:
        for each in list(received.spans):
            if each.name == name and each.attributes.get(attribute) == value and len(found) < 1 + len(STAGES):
                found[:] = chain(received.spans, each)
        return len(found) == 1 + len(STAGES)

    await until(complete, f"spans of {value}")
    assert len({each.trace_id for each in found}) == 1
    processes = [each.process for each in found]
    assert processes[0] == processes[1]
    assert processes[0].startswith(process)
    assert processes[2] == processes[3]
    assert processes[2].startswith("host-")
    assert all(each.begin_ns <= each.end_ns for each in found)


async def assert_signed_in(address: str, tmp_path: Path) -> None:
    """Sign in through the provider: in a browser, or, without Chromium, over HTTP."""
    if chromium():
        async with browser(tmp_path / "profile") as visit:
            await visit.page.goto(f"{address}/console/sign-in")
            await visit.page.get_by_role("link", name="Sign in with single sign-on").click()
            await visit.page.locator("#main").wait_for()
            await expect(visit.page.get_by_role("link", name=str(PERSON["name"]))).to_be_visible()
        return
    async with httpx2.AsyncClient(base_url=address, follow_redirects=True) as http:
        page = await http.get(SIGN_IN, headers={"Accept": "text/html"})
        assert page.status_code == 200
        assert str(PERSON["name"]) in page.text


async def sale(caller: Caller) -> str:
    """Authorize a spend; its RRN, which names the trace of the edge."""
    spend = await caller.spend(await caller.funded_card("50.00"), "12.50")
    assert spend["decision"] == "approved"
    return str(spend["rrn"])


@pytest.mark.timeout(900)
async def test_person_signs_in_at_the_provider_and_traces_span_processes(tmp_path: Path) -> None:
    async with (
        openid_server() as provider,
        collector() as received,
        started(tmp_path, provider, received) as stack,
    ):
        provider.person = {"sub": "ada", "email": PERSON["email"], "email_verified": True}
        async with stack.caller(role="owner") as owner:
            await owner.post("/v1/users", PERSON)
        await assert_signed_in(stack.record["base_url"], tmp_path)
        async with stack.caller() as caller:
            rrn = await sale(caller)
        await assert_traced(received, "edge", "stanchion.trace", rrn, "edge")
        await assert_traced(received, "http", "stanchion.operation", "create_card", "api-")
        text = str(received.spans)
        assert str(PERSON["email"]) not in text
        assert str(PERSON["name"]) not in text
