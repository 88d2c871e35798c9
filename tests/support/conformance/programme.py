"""A delegated programme: an acquirer for each of its cards, its stand-in report and its outages."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.support.api.delegation import activity, delegated_card, one_more_card
from tests.support.api.driver import Caller
from tests.support.api.stack import Installation
from tests.support.conformance.acquirer import Acquirer, plain_number
from tests.support.conformance.peer import Network

FUNDS = "10000.00"
AMPLE_MS = 3_000
"""Decision timeout that an answering endpoint meets on a busy machine."""
PATIENCE_SECONDS = 60.0


class Programme:
    """One delegated programme, with an acquirer for each card."""

    def __init__(self, installation: Installation, caller: Caller, network: Network) -> None:
        self.installation = installation
        self.caller = caller
        self.network = network
        self.acquirers: list[Acquirer] = []
        self.id = ""
        self.decision_secret = ""

    async def issue(
        self, url: str, stand_in: Any, *, declared: str = FUNDS, cards: int = 1, timeout_ms: int = AMPLE_MS
    ) -> Acquirer:
        """Create the programme and its cards. Returns the acquirer of the first card."""
        first = await delegated_card(
            self.caller, stand_in, url=url, declared=declared, funds=FUNDS, timeout_ms=timeout_ms
        )
        self.id, self.decision_secret = first["programme_id"], first["decision_secret"]
        programme = {"id": self.id, "currency": "EUR"}
        more = [await one_more_card(self.caller, programme, declared, FUNDS) for _ in range(cards - 1)]
        for card in (first, *more):
            number = await plain_number(self.installation, card["id"])
            self.acquirers.append(Acquirer(self.installation, self.caller, card, number, self.network))
        return self.acquirers[0]

    async def burst(self, size: int, **fields: str) -> list[str]:
        """Send ``size`` authorizations of 1.00 at once, on all cards in turn. Returns DE39 of each."""
        messages = [
            self.acquirers[n % len(self.acquirers)].message("0100", "1.00", **fields) for n in range(size)
        ]
        return await self.acquirers[0].exchange_all(*messages)

    async def silent_burst(self, size: int) -> Counter[str]:
        """A burst for which the endpoint counts as silent, so all stand-ins happen at the same time."""
        await self.set_timeout(200)
        return Counter(await self.burst(size, t99="delegated_timeout"))

    async def set_timeout(self, timeout_ms: int) -> None:
        """Change the decision timeout."""
        await self.caller.patch(f"/v1/programs/{self.id}", {"decision_timeout_ms": timeout_ms})

    async def finished(self) -> int:
        """The number of finished events of the programme's outages."""
        page = await self.caller.get("/v1/events?types=authorization.stip_outage.finished&limit=100")
        data = [event["data"] for event in page["data"]]
        assert all(each.keys() == {"programme_id", "ended_at"} for each in data)
        return sum(each["programme_id"] == self.id for each in data)

    async def recover(self, finished: int) -> None:
        """Spend until ``finished`` outages have a finished event. Hosts learn of outages with a delay."""
        await self.set_timeout(AMPLE_MS)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while await self.finished() < finished:
            assert time.monotonic() < deadline, "the outage does not end"
            assert await self.burst(4) == ["00"] * 4
        assert await self.finished() == finished

    async def outages(self) -> list[Any]:
        """The budgets of all outages, oldest first: id, period, currency, used amount, and whether it has
        ended."""
        rows = await self.installation.services.pool.fetch(
            "SELECT id::text, period, currency, used_minor, ended_at IS NOT NULL AS ended"
            " FROM outages WHERE programme_id = $1 ORDER BY started_at, period",
            self.id,
        )
        return [tuple(row) for row in rows]

    async def report(self) -> list[Any]:
        """The newest 100 stand-ins of the activity report."""
        return await activity(self.caller, self.id, "&limit=100")

    async def exposure_minor(self) -> dict[str, int]:
        """The approved amount of each outage."""
        rows = await self.installation.services.pool.fetch(
            "SELECT outage_id::text, sum(exposure_minor)::bigint FROM stand_ins WHERE programme_id = $1"
            " AND outage_id IS NOT NULL GROUP BY 1",
            self.id,
        )
        return {row[0]: row[1] for row in rows}


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "condition not true in time"
        await asyncio.sleep(0.005)
