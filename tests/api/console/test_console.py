"""The console over HTTP: panels, isolation of tenants, and the content policy."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx2
import pytest

from api.console import figures
from engine.limits import CONSOLE_SIMULATIONS_MAX
from tests.support.api.authorization_rules import RULES, rule_of
from tests.support.api.console.people import PersonOfTest, person
from tests.support.api.console.visitor import Visitor
from tests.support.api.console.visitor import visitor as browser_of
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation

HERE = {"Sec-Fetch-Site": "same-origin"}
PAGES = ("/console", "/console/panels", "/console/figures", "/console/cards?id=x", "/console/audit-log")


@asynccontextmanager
async def visitor(running: Installation) -> AsyncIterator[httpx2.AsyncClient]:
    """A browser: an HTTP client with its own cookie jar."""
    async with browser_of(running) as browser:
        yield browser.http


async def sign_in(http: httpx2.AsyncClient, who: Caller | PersonOfTest) -> None:
    await Visitor(http).sign_in(who)


async def test_audit_log_shows_acts_with_the_names_of_clients(running: Installation, tenant: str) -> None:
    owner = await running.caller(tenant, role="owner")
    made = await owner.post("/v1/clients", {"role": "admin", "name": "Back <office>"})
    card = await owner.funded_card()
    await owner.patch(f"/v1/cards/{card['id']}", {"state": "suspended"})
    async with visitor(running) as http:
        secret = {"client_id": made["client_id"], "client_secret": made["client_secret"]}
        answer = await http.post("/console/sign-in", data=secret, headers=HERE)
        assert answer.status_code == 303
        page = (await http.get("/console/audit-log")).text
        assert "<strong>sign in</strong>" in page
        assert 'client <span class="faint">Back &lt;office&gt;</span>' in page
        assert f'href="/console/cards/{card["id"]}"' in page
        assert "<td>state</td><td>active</td><td>suspended</td>" in page
        assert made["client_secret"] not in page
    acts = (await owner.get(f"/v1/audit-log?object_id={made['id']}"))["data"]
    assert [each["act"] for each in acts] == ["sign_in", "create_client"]
    assert {each["actor"]["id"] for each in acts[:1]} == {made["id"]}
    user = await running.caller(tenant, role="user")
    async with visitor(running) as http:
        await sign_in(http, user)
        answer = await http.get("/console/audit-log")
        assert answer.status_code == 403
        assert card["id"] not in answer.text


async def test_console_shows_transactions_figures_and_card_details(
    running: Installation, acme: Caller
) -> None:
    card = await acme.funded_card()
    await acme.spend(card, "1.00", merchant_name="<script>a()</script>")
    await acme.spend(card, "999.00")
    async with visitor(running) as http:
        await sign_in(http, acme)
        assert 'hx-get="/console/panels"' in (await http.get("/console")).text
        panels = (await http.get("/console/panels")).text
        assert "insufficient_funds" in panels
        assert "&lt;script&gt;a()&lt;/script&gt;" in panels
        assert "<script" not in panels
        assert "decided by the platform" in panels
        assert "No endpoints." in panels
        assert re.search(r'id="latency">\d+ / \d+ ms<', panels)
        figures = (await http.get("/console/figures")).json()
        assert figures.keys() == {"at", "approved", "declined", "reasons"}
        assert len(figures["at"]) == len(figures["approved"]) == len(figures["declined"]) == 60
        page = (await http.get(f"/console/cards?id={card['id']}")).text
        assert card["last4"] in page
        assert page.count("<details") == 2
        assert "funds" in page


async def test_decline_by_a_rule_is_shown_with_its_detail(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.post(RULES, rule_of("card", card["id"], state="active"))
    await acme.spend(card, "1.00", mcc="7995")
    async with visitor(running) as http:
        await sign_in(http, acme)
        page = (await http.get(f"/console/cards?id={card['id']}")).text
    assert "rule_declined · no_gambling" in page


async def test_card_page_links_a_card_with_its_replacement(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    new = await acme.post(f"/v1/cards/{card['id']}/replace", {"reason": "lost"})
    async with visitor(running) as http:
        await sign_in(http, acme)
        for shown, linked in ((card, new), (new, card)):
            page = (await http.get(f"/console/cards?id={shown['id']}")).text
            assert f'href="/console/cards?id={linked["id"]}"' in page


async def test_decisions_are_counted_in_five_second_slots(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    for amount in ("1.00", "1.00", "999.00"):
        await acme.spend(card, amount)
    # Six seconds old: their slot is complete.
    earlier = "UPDATE transactions SET created_at = created_at - interval '6 seconds' WHERE card_id = $1"
    await running.services.pool.execute(earlier, card["id"])
    async with visitor(running) as http:
        await sign_in(http, acme)
        figures = (await http.get("/console/figures")).json()
        assert sum(figures["approved"]) * 5 == pytest.approx(2)
        assert sum(figures["declined"]) * 5 == pytest.approx(1)
        assert figures["reasons"] == [["insufficient_funds", 1]]
        assert '<strong id="declined-share">33 %</strong>' in (await http.get("/console/panels")).text


async def test_decisions_above_the_limit_show_complete_slots_only(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    card = await acme.funded_card()
    spends = [await acme.spend(card, "1.00") for _ in range(3)]
    for number, spend in enumerate(spends):
        await running.services.pool.execute(
            "UPDATE transactions SET created_at = created_at - make_interval(secs => $2) WHERE id = $1",
            spend["transaction_id"],
            10 * (3 - number),
        )
    monkeypatch.setattr("api.console.figures.CONSOLE_DECISIONS_MAX", 3)
    async with visitor(running) as http:
        await sign_in(http, acme)
        figures = (await http.get("/console/figures")).json()
        assert len(figures["at"]) < 60
        assert sum(figures["approved"]) * 5 == pytest.approx(2), (
            "the slot of the oldest decision may be incomplete"
        )


async def test_console_shows_an_outage_and_its_used_exposure(running: Installation, acme: Caller) -> None:
    programme = await acme.programme(name="Standing")
    await running.services.pool.execute(
        "INSERT INTO outages (id, period, tenant_id, live, programme_id, currency, used_minor, started_at)"
        " SELECT gen_random_uuid(), 1, tenant_id, live, id, 'EUR', 12345, now()"
        " FROM programmes WHERE id = $1",
        programme["id"],
    )
    async with visitor(running) as http:
        await sign_in(http, acme)
        panels = (await http.get("/console/panels")).text
        assert "standing in since" in panels
        assert "123.45" in panels


async def test_panels_without_the_required_scope_are_hidden(running: Installation, acme: Caller) -> None:
    card = await acme.funded_card()
    await acme.spend(card, "1.00")
    narrow = await running.caller(acme.credentials.name, scopes=("webhooks:read",))
    async with visitor(running) as http:
        await sign_in(http, narrow)
        panels = (await http.get("/console/panels")).text
        assert "lacks the scope transactions:read" in panels
        assert "lacks the scope programs:read and stip:read" in panels
        assert "No endpoints." in panels
        assert "Corner Shop" not in panels
        assert (await http.get("/console/figures")).status_code == 403
        assert (await http.get(f"/console/cards?id={card['id']}")).status_code == 404


async def test_console_shows_no_data_of_other_tenants_or_modes(
    running: Installation, acme: Caller, tenant: str
) -> None:
    card = await acme.funded_card()
    await acme.spend(card, "1.00", merchant_name="Only Acme")
    others = [await running.caller(f"{tenant}-other"), await person(running, tenant, modes=("live",))]
    for other in others:
        async with visitor(running) as http:
            await sign_in(http, other)
            assert (await http.get(f"/console/cards?id={card['id']}")).status_code == 404
            panels = (await http.get("/console/panels")).text
            assert "Only Acme" not in panels
            assert sum((await http.get("/console/figures")).json()["approved"]) == 0
    for nonsense in ("", "x", "019aa6f0-4f2c-7cc1-9a31-5b0f6f3f2a7e", "' OR 1=1"):
        async with visitor(running) as http:
            await sign_in(http, acme)
            answer = await http.get("/console/cards", params={"id": nonsense})
            assert (answer.status_code, "Card not found" in answer.text) == (404, True)


async def test_pages_load_resources_from_their_own_origin_only(running: Installation, acme: Caller) -> None:
    async with visitor(running) as http:
        pages = [await http.get("/console/sign-in")]
        await sign_in(http, acme)
        pages += [await http.get(page) for page in PAGES]
        for page in pages:
            policy = page.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "script-src 'self';" in policy
            assert "unsafe" not in policy
            assert page.headers["x-frame-options"] == "DENY"
            assert page.headers["cache-control"] == "no-store"
            assert not re.search(r"(src|href)=\"(https?:)?//|<script>|style=\"| on\w+=", page.text)
        for asset in re.findall(r'(?:src|href)="(/console/static/[^"]+)"', pages[0].text):
            answer = await http.get(asset)
            assert (answer.status_code, answer.headers["x-content-type-options"]) == (200, "nosniff")
        assert (await http.get("/console/static/VENDORED.md")).status_code == 404


async def test_unreachable_database_returns_503(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visitor(running) as http:
        await sign_in(http, acme)

        async def away(*_arguments: object) -> None:
            raise ConnectionRefusedError

        monkeypatch.setattr("api.console.figures.decisions", away)
        answer = await http.get("/console/panels")
        assert answer.status_code == 503
        assert "does not answer" in answer.text


async def test_latency_counts_only_simulations_of_the_tenant(
    running: Installation, acme: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    await acme.spend(await acme.funded_card(), "1.00")
    other = await running.caller(f"{acme.credentials.name}-other")
    card = await other.funded_card()
    newest_of_all = 3
    query = figures._LATENCIES.replace(f"LIMIT {CONSOLE_SIMULATIONS_MAX}", f"LIMIT {newest_of_all}")
    monkeypatch.setattr(figures, "_LATENCIES", query)
    for _ in range(newest_of_all):
        await other.spend(card, "1.00")
    async with visitor(running) as http:
        await sign_in(http, acme)
        assert "no simulated spends" not in (await http.get("/console/panels")).text
