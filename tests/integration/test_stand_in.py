"""Stand-in between real processes: cards on two hosts, one budget, and a host that is killed meanwhile."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from typing import Any

from tests.api.delegation import delegated_card, money, one_more_card, policy
from tests.api.driver import Caller
from tests.conformance.decision_endpoint import approve, decision_endpoint, hang_up
from tests.integration.acquirer import Acquirer, private, purchase
from tests.integration.stack import SECONDS_MAX, Stack, until

FITS = 13
BUDGET = policy(max_total_exposure=money(f"{FITS}.99"), max_amount="1.00")
SILENT = private(t99="delegated_timeout")


async def stood_in(acquirer: Acquirer, plastics: list[dict[str, str]], size: int) -> Counter[str]:
    """DE39 of so many authorizations of 1.00 for which the endpoint counts as silent."""
    asked = [purchase(plastics[n % len(plastics)], "1.00", de48=SILENT) for n in range(size)]
    answers = await asyncio.gather(*(acquirer.ask(document) for document in asked))
    return Counter(answer["39"] for answer in answers)


async def outages(stack: Stack, programme_id: str) -> list[Any]:
    """What is used of each outage's budget, what was approved in it, and whether it has ended."""
    return await stack.fetch(
        "SELECT o.used_minor, o.ended_at IS NOT NULL AS ended, coalesce(sum(s.exposure_minor), 0)::bigint AS"
        " exposure_minor FROM outages o LEFT JOIN stand_ins s ON s.outage_id = o.id"
        " WHERE o.programme_id = $1 GROUP BY o.id, o.period, o.used_minor, o.ended_at, o.started_at"
        " ORDER BY o.started_at",
        programme_id,
    )


async def recovered(stack: Stack, caller: Caller, card: Any, programme_id: str) -> None:
    """Spend until every outage has ended, and each has told so once."""
    async with asyncio.timeout(SECONDS_MAX):
        while not all(outage["ended"] for outage in await outages(stack, programme_id)):
            await caller.spend(card, "1.00")
    page = await caller.get("/v1/events?types=authorization.stip_outage.finished&limit=100")
    finished = [event for event in page["data"] if event["data"]["programme_id"] == programme_id]
    assert len(finished) == len(await outages(stack, programme_id))


async def test_one_budget_for_cards_on_two_hosts(stack: Stack, demo: Caller, acquirer: Acquirer) -> None:
    async with decision_endpoint(stack.installation.var_dir) as endpoint:
        card = await delegated_card(demo, BUDGET, url=endpoint.url, declared="999.00", funds="999.00")
        programme = {"id": card["programme_id"], "currency": "EUR"}
        more = [await one_more_card(demo, programme, "999.00", "999.00") for _ in range(7)]
        plastics = list((await stack.plastics(card, *more)).values())

        codes = await stood_in(acquirer, plastics, 64)
        [outage] = await outages(stack, programme["id"])
        assert codes["00"] * 100 <= outage["exposure_minor"] <= outage["used_minor"] == FITS * 100
        # On a machine that is too busy, the owner of the budget is not reached in time, nor is the network.
        assert codes["00"] == FITS or codes["05"] or codes["91"]

        endpoint.behave = approve
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 2_000})
        await recovered(stack, demo, card, programme["id"])

        endpoint.behave = hang_up
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 200})
        asking = asyncio.create_task(stood_in(acquirer, plastics, 64))
        await asyncio.sleep(0.2)
        os.kill((await stack.a_host())[1], signal.SIGKILL)
        codes = await asking
        *_, outage = await outages(stack, programme["id"])
        assert codes["00"] * 100 <= outage["exposure_minor"] <= outage["used_minor"] <= FITS * 100
        await until(stack.whole, "a fresh host has taken its share")

        endpoint.behave = approve
        await demo.patch(f"/v1/programs/{programme['id']}", {"decision_timeout_ms": 2_000})
        await recovered(stack, demo, card, programme["id"])
        await demo.patch(f"/v1/programs/{programme['id']}", {"decisioning": "platform"})
