"""A programme that decides itself, as a network at its cards and the programme's people see it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.api.delegation import activity, delegated_card, one_more_card
from tests.api.driver import Caller
from tests.api.stack import Installation
from tests.conformance.desk import Desk, plain_number
from tests.conformance.peer import Network

FUNDS = "10000.00"
AMPLE_MS = 3_000
"""For an endpoint that is to answer in time however busy the machine is."""
PATIENCE_SECONDS = 60.0


class Programme:
    """One programme that decides itself, and desks of its cards."""

    def __init__(self, installation: Installation, caller: Caller, network: Network) -> None:
        self.installation = installation
        self.caller = caller
        self.network = network
        self.desks: list[Desk] = []
        self.id = ""
        self.decision_secret = ""

    async def issue(
        self, url: str, stand_in: Any, *, declared: str = FUNDS, cards: int = 1, timeout_ms: int = AMPLE_MS
    ) -> Desk:
        """Make the programme and its cards; the first one's desk."""
        first = await delegated_card(
            self.caller, stand_in, url=url, declared=declared, funds=FUNDS, timeout_ms=timeout_ms
        )
        self.id, self.decision_secret = first["programme_id"], first["decision_secret"]
        programme = {"id": self.id, "currency": "EUR"}
        more = [await one_more_card(self.caller, programme, declared, FUNDS) for _ in range(cards - 1)]
        for card in (first, *more):
            number = await plain_number(self.installation, card["id"])
            self.desks.append(Desk(self.installation, self.caller, card, number, self.network))
        return self.desks[0]

    async def burst(self, size: int, **fields: str) -> list[str]:
        """DE39 of ``size`` authorizations of 1.00 on all cards in turn, asked all at once."""
        asked = [self.desks[n % len(self.desks)].say("0100", "1.00", **fields) for n in range(size)]
        return await self.desks[0].ask_all(*asked)

    async def silent_burst(self, size: int) -> Counter[str]:
        """... while the endpoint counts as silent: all are stood in for at the same moment."""
        await self.wait_for(200)
        return Counter(await self.burst(size, t99="delegated_timeout"))

    async def wait_for(self, timeout_ms: int) -> None:
        """How long the endpoint has from now on."""
        await self.caller.patch(f"/v1/programs/{self.id}", {"decision_timeout_ms": timeout_ms})

    async def finished(self) -> int:
        """How many outages of the programme are told to have finished."""
        page = await self.caller.get("/v1/events?types=authorization.stip_outage.finished&limit=100")
        data = [event["data"] for event in page["data"]]
        assert all(each.keys() == {"programme_id", "ended_at"} for each in data)
        return sum(each["programme_id"] == self.id for each in data)

    async def recover(self, finished: int) -> None:
        """Spend until so many outages are told to have finished: hosts hear of them in their own time."""
        await self.wait_for(AMPLE_MS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while await self.finished() < finished:
            assert time.monotonic() < deadline, "the outage does not end"
            assert await self.burst(4) == ["00"] * 4
        assert await self.finished() == finished

    async def outages(self) -> list[Any]:
        """The budgets that were begun, oldest first: id, period, currency, used, and whether it has ended."""
        rows = await self.installation.services.pool.fetch(
            "SELECT id::text, period, currency, used_minor, ended_at IS NOT NULL AS ended"
            " FROM outages WHERE programme_id = $1 ORDER BY started_at, period",
            self.id,
        )
        return [tuple(row) for row in rows]

    async def report(self) -> list[Any]:
        """The newest 100 stand-ins."""
        return await activity(self.caller, self.id, "&limit=100")

    async def exposure_minor(self) -> dict[str, int]:
        """The sum of what was approved in each outage."""
        rows = await self.installation.services.pool.fetch(
            "SELECT outage_id::text, sum(exposure_minor)::bigint FROM stand_ins WHERE programme_id = $1"
            " AND outage_id IS NOT NULL GROUP BY 1",
            self.id,
        )
        return {row[0]: row[1] for row in rows}


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        await asyncio.sleep(0.005)
