"""API callers that move money and reverse some of their transfers, each request until it has an answer.

Each transfer has its own external reference and amount, so the database shows how often it was posted and
reversed, and what each account must hold.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

import aiohttp
import asyncpg

from engine.money import format_minor

CALLERS: Final = 32
REVERSED_EVERY: Final = 4
"""Every fourth transfer is reversed, by two requests at once."""
RETRY_SECONDS: Final = 0.1
ANSWER_SECONDS_MAX: Final = 20.0
"""Timeout of one attempt."""
GIVE_UP_SECONDS: Final = 90.0
"""After this time without an answer a caller gives up; the outcome stays unknown."""
_IN_PROGRESS: Final = "/problems/idempotency-in-progress"

# The transfers of an account by reference, with their entries on it.
_POSTED: Final = """
    SELECT t.external_ref, count(DISTINCT t.id) AS transfers,
        count(e.id) FILTER (WHERE e.transfer_id = t.id) AS entries,
        count(e.id) FILTER (WHERE e.transfer_id = t.reversal_id) AS reversals,
        coalesce(sum(CASE e.direction WHEN 'credit' THEN e.amount_minor ELSE -e.amount_minor END), 0)::bigint
            AS posted_minor
    FROM transfers t LEFT JOIN ledger_entries e
        ON e.account_id = t.account_id AND e.transfer_id IN (t.id, t.reversal_id)
    WHERE t.account_id = $1::text::uuid AND t.external_ref LIKE $2 GROUP BY t.external_ref
"""


@dataclass
class Moved:
    """One transfer as its caller knows it."""

    external_ref: str
    amount_minor: int
    """Positive for a credit, negative for a debit."""
    reverse: bool
    status: int | None = None
    """The status of the answer to the transfer; ``None`` if there was none."""
    reversals: tuple[int | None, ...] = ()
    """The statuses of the answers to the requests for its reversal."""

    @property
    def unanswered(self) -> bool:
        """Whether a request got no answer."""
        return self.status is None or None in self.reversals


@dataclass(frozen=True)
class Posted:
    """One transfer in the database: its rows, its entries on the account, those of its reversal, their
    sum."""

    transfers: int
    entries: int
    reversals: int
    posted_minor: int


class TransferCallers:
    """Moves money on one card account."""

    def __init__(self, base_url: str, token: str, account_id: str) -> None:
        self._base_url = base_url
        self._headers = {"Authorization": f"Bearer {token}"}
        self._account_id = account_id
        self._run = uuid.uuid4().hex
        self.moved: list[Moved] = []

    async def run(self, count: int) -> None:
        """Post ``count`` transfers, ``CALLERS`` at a time, and reverse some of them."""
        self.moved = [self._plan(number) for number in range(1, count + 1)]
        work = iter(self.moved)
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(self._base_url, timeout=timeout, connector=connector) as http:
            await asyncio.gather(*(self._call(http, work) for _ in range(CALLERS)))

    def answered(self) -> int:
        """The number of transfers with an answer."""
        return sum(each.status is not None for each in self.moved)

    def _plan(self, number: int) -> Moved:
        sign = -1 if number % 3 == 0 else 1
        return Moved(f"{self._run}-{number}", sign * number, number % REVERSED_EVERY == 0)

    async def _call(self, http: aiohttp.ClientSession, work: Any) -> None:
        for moved in work:
            await self._move(http, moved)

    async def _move(self, http: aiohttp.ClientSession, moved: Moved) -> None:
        body: dict[str, Any] = {
            "account_id": self._account_id,
            "direction": "credit" if moved.amount_minor > 0 else "debit",
            "amount": {"amount": format_minor(abs(moved.amount_minor)), "currency": "EUR"},
            "kind": "adjustment",
            "external_ref": moved.external_ref,
        }
        if moved.amount_minor < 0:
            body["allow_negative"] = True
        moved.status, transfer = await self._until_answered(http, "/v1/transfers", body)
        if moved.reverse and moved.status == 201:
            path = f"/v1/transfers/{transfer['id']}/reverse"
            both = (self._until_answered(http, path, {"allow_negative": True}) for _ in range(2))
            moved.reversals = tuple(status for status, _ in await asyncio.gather(*both))

    async def _until_answered(
        self, http: aiohttp.ClientSession, path: str, body: dict[str, Any]
    ) -> tuple[int | None, Any]:
        """Status and body of the answer to one idempotency key; ``None`` after ``GIVE_UP_SECONDS``."""
        headers = self._headers | {"Idempotency-Key": uuid.uuid4().hex}
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                async with http.post(path, json=body, headers=headers) as response:
                    answer = json.loads(await response.read())
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            else:
                passing = response.status in (401, 429) or answer.get("type", "").endswith(_IN_PROGRESS)
                if response.status < 500 and not passing:
                    return response.status, answer
            await asyncio.sleep(RETRY_SECONDS)
        return None, None

    async def broken(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[str]:
        """The answers that the database contradicts."""
        rows = await connection.fetch(_POSTED, self._account_id, f"{self._run}-%")
        posted = {
            row["external_ref"]: Posted(
                row["transfers"], row["entries"], row["reversals"], row["posted_minor"]
            )
            for row in rows
        }
        return judge(self.moved, posted)


def judge(moved: list[Moved], posted: dict[str, Posted]) -> list[str]:
    """The broken rules on plain values; ``posted`` is the database's view by external reference."""
    broken = []
    for each in moved:
        found = posted.get(each.external_ref, Posted(0, 0, 0, 0))
        least = 1 if each.status == 201 else 0
        if not (least <= found.transfers <= 1 and found.entries == found.transfers):
            broken.append(f"{each.external_ref}: posted {found.entries} times after {each.status}")
        reversals = each.reversals.count(200)
        if reversals > 1 or not (reversals <= found.reversals <= min(1, len(each.reversals))):
            broken.append(f"{each.external_ref}: reversed {found.reversals} times after {each.reversals}")
        if found.posted_minor != each.amount_minor * (found.entries - found.reversals):
            broken.append(f"{each.external_ref}: {found.posted_minor} posted")
    return broken
