"""The first page of the console: figures of a time range, stand-in, webhooks, newest transactions."""

from __future__ import annotations

import html
import json
import re
from typing import Any

import pytest

from api.console.activity.ranges import RANGES
from tests.support.api.console.visitor import visitor
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation


def data_of(page: str) -> Any:
    """The data of the charts in a page."""
    found = re.search(r'data-figures="([^"]+)"', page)
    assert found is not None, page
    return json.loads(html.unescape(found[1]))


async def test_home_shows_figures_and_the_newest_transactions(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.spend(card, "1.00", merchant_name="<script>a()</script>")
    await acme.spend(card, "999.00")
    async with visitor(running, acme) as browser:
        page = (await browser.get()).text
        assert all(f"range={name}" in page for name in RANGES)
        assert "/console/summary?range=1h" in page
        for name in ("5m", "90d"):
            summary = (await browser.get("/summary", range=name)).text
            assert '<strong id="approved">1<' in summary
            assert '<span id="declined-share">50.0 %</span>' in summary
            assert "1.00 <small>EUR</small>" in summary
            assert "insufficient funds" in summary
            data = data_of(summary)
            assert sum(filter(None, data["declined"])) == 1
            assert len(data["at"]) == len(data["p99_ms"]) == RANGES[name].seconds / RANGES[name].slot_seconds
        assert re.search(r'id="latency">\d+ / \d+ ms<', summary)
        panels = (await browser.get("/panels")).text
        assert "&lt;script&gt;a()&lt;/script&gt;" in panels
        assert "<script" not in panels
        assert "decided by the platform" in panels
        assert "No endpoints." in panels
        assert f"••{card['last4']}" in panels
        # An unknown range is the default one.
        assert "Figures of the last 1 hour" in (await browser.get("", range="1y")).text


async def test_home_shows_an_outage_and_its_used_exposure(running: Installation, acme: Caller) -> None:
    programme = await acme.programme(name="Standing")
    await running.services.pool.execute(
        "INSERT INTO outages (id, period, tenant_id, live, programme_id, currency, used_minor, started_at)"
        " SELECT gen_random_uuid(), 1, tenant_id, live, id, 'EUR', 12345, now()"
        " FROM programmes WHERE id = $1",
        programme["id"],
    )
    async with visitor(running, acme) as browser:
        panels = (await browser.get("/panels")).text
        assert "standing in" in panels
        assert "123.45" in panels


async def test_home_hides_what_the_session_may_not_read(running: Installation, acme: Caller) -> None:
    await acme.spend(await acme.funded_card(), "1.00")
    narrow = await running.caller(acme.credentials.name, scopes=("webhooks:read",))
    async with visitor(running, narrow) as browser:
        assert "lacks the scope transactions:read" in (await browser.get()).text
        panels = (await browser.get("/panels")).text
        assert "lacks the scope transactions:read" in panels
        assert "lacks the scope programs:read and stip:read" in panels
        assert "No endpoints." in panels
        assert "Corner Shop" not in panels
        await browser.get("/summary", 403)


async def test_home_of_another_tenant_shows_none_of_it(
    running: Installation, acme: Caller, tenant: str
) -> None:
    await acme.spend(await acme.funded_card(), "1.00", merchant_name="Only Acme")
    other = await running.caller(f"{tenant}-other")
    async with visitor(running, other) as browser:
        assert "Only Acme" not in (await browser.get("/panels")).text
        assert '<strong id="approved">0<' in (await browser.get("/summary")).text


async def test_unreachable_database_returns_503(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visitor(running, acme) as browser:

        async def away(*_arguments: object) -> None:
            raise ConnectionRefusedError

        monkeypatch.setattr("api.console.figures.programmes", away)
        assert "does not answer" in (await browser.get("/panels", 503)).text
