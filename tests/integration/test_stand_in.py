"""Stand-in across processes: cards on two hosts, one budget, and the kill of a host."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import Any

from tests.support.api.delegation import delegated_card, money, one_more_card, policy
from tests.support.api.driver import Caller
from tests.support.conformance.decision_endpoint import approve, decision_endpoint, hang_up
from tests.support.integration.acquirer import Acquirer, private_tags, purchase
from tests.support.integration.stack import SECONDS_MAX, Stack, until

FITS = 13
BUDGET = policy(max_total_exposure=money(f"{FITS}.99"), max_amount="1.00")
SILENT = private_tags(t99="delegated_timeout")


async def spend_with_silent_endpoint(
    acquirer: Acquirer, plastics: list[dict[str, str]], size: int
) -> Counter[str]:
    """The response codes (DE39) of ``size`` authorizations of 1.00 with a silent endpoint."""
    requests = [purchase(plastics[n % len(plastics)], "1.00", de48=SILENT) for n in range(size)]
    answers = await asyncio.gather(*(acquirer.exchange(document) for document in requests))
    return Counter(answer["39"] for answer in answers)


async def outages(stack: Stack, programme_id: str) -> list[Any]:
    """Used budget and approved exposure of each outage, and whether it has ended."""
    return await stack.fetch(
        "SELECT o.used_minor, o.ended_at IS NOT NULL AS ended, coalesce(sum(s.exposure_minor), 0)::bigint AS"
        " exposure_minor FROM outages o LEFT JOIN stand_ins s ON s.outage_id = o.id"
        " WHERE o.programme_id = $1 GROUP BY o.id, o.period, o.used_minor, o.ended_at, o.started_at"
        " ORDER BY o.started_at",
        programme_id,
    )


async def spend_until_recovered(stack: Stack, caller: Caller, card: Any, programme_id: str) -> None:
    """Spend until every outage has ended, and assert one finished event for each."""
    async with asyncio.timeout(SECONDS_MAX):
        while not all(outage["ended"] for outage in await outages(stack, programme_id)):
            await caller.spend(card, "1.00")
    page = await caller.get("/v1/events?types=authorization.stip_outage.finished&limit=100")
    finished = [event for event in page["data"] if event["data"]["programme_id"] == programme_id]
    assert len(finished) == len(await outages(stack, programme_id))


async def test_one_budget_holds_across_two_hosts_and_a_kill(
    stack: Stack, demo: Caller, acquirer: Acquirer
) -> None:
    async with decision_endpoint(stack.installation.var_dir) as endpoint:
        card = await delegated_card(demo, BUDGET, url=endpoint.url, declared="999.00", funds="999.00")
        programme = {"id": card["programme_id"], "currency": "EUR"}
        more = [await one_more_card(demo, programme, "999.00", "999.00") for _ in range(7)]
        plastics = list((await stack.card_data(card, *more)).values())

        codes = await spend_with_silent_endpoint(acquirer, plastics, 64)
        [outage] = await outages(stack, programme["id"])
        assert codes["00"] * 100 <= outage["exposure_minor"] <= outage["used_minor"] == FITS * 100
        # On a busy machine, the budget's owner may not answer in time (05), or the edge's deadline may pass
        # (91).
        assert codes["00"] == FITS or codes["05"] or codes["91"]

        endpoint.behave = approve
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 2_000})
        await spend_until_recovered(stack, demo, card, programme["id"])

        endpoint.behave = hang_up
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 200})
        asking = asyncio.create_task(spend_with_silent_endpoint(acquirer, plastics, 64))
        await asyncio.sleep(0.2)
        os.kill((await stack.any_host())[1], signal.SIGKILL)
        codes = await asking
        *_, outage = await outages(stack, programme["id"])
        assert codes["00"] * 100 <= outage["exposure_minor"] <= outage["used_minor"] <= FITS * 100
        await until(stack.healthy, "a fresh host has taken its share")

        endpoint.behave = approve
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 2_000})
        await spend_until_recovered(stack, demo, card, programme["id"])
        await demo.patch(f"/v1/programs/{programme['id']}", {"decisioning": "platform"})
