"""The demo that keeps running: a short day with real decisions, a stand-in outage, and a failing receiver.

`make demo KEEP=1` runs all of it with its processes; here every part but Ray is real.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from rich.console import Console

from actors.settings import Settings
from actors.vault import Vault
from ops.demo.day import Day
from ops.demo.day_plan import BURST_SHOP, HOLDERS, Purchase, plan
from ops.demo.keep import SEED, Servers, invite, summary
from ops.embedded.local_https import with_local_egress
from stanchion import AsyncClient
from tests.support.api.stack import installation, served
from tests.support.integration.stack import until

SECONDS_MAX = 60


@pytest.fixture
async def api(settings: Settings, vault: Vault) -> AsyncIterator[AsyncClient]:
    local = with_local_egress(settings)
    async with installation(local, vault, webhooks=True) as running, served(running.app) as address:
        owner = (await running.caller()).credentials
        async with AsyncClient(address, owner.client_id, owner.client_secret) as client:
            yield client


def of_pool(planned: list[Purchase], pool: str) -> list[Purchase]:
    return [each for each in planned if HOLDERS[each.holder].pool == pool]


async def test_short_day_has_declines_follow_ups_and_a_stand_in_outage(
    api: AsyncClient, settings: Settings
) -> None:
    planned = plan(SEED)
    burst = [each for each in planned if each.merchant_id == BURST_SHOP]
    others = [each for each in planned if each not in burst]
    chosen = sorted([*burst, *others[::12]], key=lambda each: each.hour)
    async with Servers(settings.var_dir) as servers:
        day = Day(api, hour_seconds=0.02)
        await servers.subscribe(api)
        servers.partner.secret = await day.prepare(servers.decision_url)
        await day.run(chosen)
        declined = day.traffic.declined
        assert (day.traffic.approved + declined.total(), day.traffic.unanswered) == (len(chosen), 0)
        assert declined["rule_declined"] == len(burst) - 3
        assert day.traffic.approved > declined.total()
        assert day.traffic.follow_ups.total() > 0
        # Before its outage, the partner decides itself.
        deciders = {
            each["decided_by"] async for each in api.transactions.list(programme_id=day.programmes["partner"])
        }
        assert "programme" in deciders

        servers.partner.behaviour = "down"
        small = [each for each in of_pool(planned, "partner") if each.billed_minor < 2_000][:4]
        await day.run([each for each in small if each.merchant.mcc != "7995"])
        servers.partner.behaviour = "approve"
        stood_in = [entry async for entry in _activity(api, day)]
        assert {entry["decision"] for entry in stood_in} == {"approved"}

        output = io.StringIO()
        await summary(Console(file=output, width=200), api, day, servers)
        assert f"{day.traffic.approved} purchases approved; declined: " in output.getvalue()


async def test_failing_receiver_recovers(api: AsyncClient, settings: Settings) -> None:
    async with Servers(settings.var_dir) as servers:
        day = Day(api, hour_seconds=0.0)
        await servers.subscribe(api)
        servers.partner.secret = await day.prepare(servers.decision_url)
        servers.receiver_down = True
        await day.run(
            [each for each in of_pool(plan(SEED), "business") if each.merchant.name == "Alpine Taxi"][:1]
        )
        await until(lambda: bool(servers.failed), "a delivery is refused")
        servers.receiver_down = False
        # The first retry of the schedule is due after a minute; on request it comes at once.
        (event,) = servers.failed
        await api.events.redeliver(event, endpoint_id=servers.endpoints[0])
        async with asyncio.timeout(SECONDS_MAX):
            await servers.retried()
        assert servers.recovered == servers.failed
    assert [endpoint async for endpoint in api.webhook_endpoints.list()] == []


async def _activity(api: AsyncClient, day: Day) -> AsyncIterator[dict[str, object]]:
    now = datetime.now(UTC)
    begin, end = ((now + timedelta(hours=hours)).isoformat(timespec="seconds") for hours in (-1, 1))
    async for entry in api.programs.stip_activity(day.programmes["partner"], begin, end):
        yield dict(entry)


async def test_invitation_is_made_outside_the_demos_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def made() -> str:
        return "http://127.0.0.1:1/console/enter/once"

    monkeypatch.setattr("ops.demo.keep.sign_in_link", lambda _state: asyncio.run(made()))
    console = Console(record=True, width=120)
    await invite(console, tmp_path, {"base_url": "http://127.0.0.1:1"})
    assert "http://127.0.0.1:1/console/enter/once" in console.export_text()
