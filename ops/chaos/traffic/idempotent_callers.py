"""API callers that send concurrent copies of each request under one idempotency key (G5).

They drop some of the answers and retry until they have one. They run during all faults; afterwards the
database shows how often each key had its effect.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import aiohttp
import asyncpg

from engine.money import format_minor
from ops.audit import EXAMPLES_MAX, Finding

COPIES_MAX: Final = 8
CALLERS: Final = 3
PAUSE_SECONDS_MAX: Final = 0.5
RETRY_SECONDS: Final = 0.1
ANSWER_SECONDS_MAX: Final = 20.0
"""Timeout of one attempt."""
GIVE_UP_SECONDS: Final = 90.0
"""After this time without an answer a caller gives up; the outcome stays unknown."""
DROPPED_SHARE: Final = 0.3
"""The share of copies whose first answer is dropped."""
ALTERED_MINOR: Final = 10_000_000
"""Added to an amount for the altered payload."""
IN_PROGRESS: Final = "idempotency-in-progress"
REUSED: Final = "idempotency-key-reused"

Kind = Literal["load", "cardholder", "card_product"]
KINDS: Final[tuple[Kind, ...]] = ("load", "load", "cardholder", "card_product")

# The number of effects of each key, by the value that is unique to the key.
_EFFECTS: Final[dict[Kind, str]] = {
    "load": "SELECT e.amount_minor::text AS key, count(*) AS effects FROM ledger_entries e"
    " JOIN cards c ON c.account_id = e.account_id"
    " WHERE c.id = $1::text::uuid AND e.direction = 'credit' GROUP BY 1",
    "cardholder": "SELECT external_ref AS key, count(*) AS effects FROM cardholders"
    " WHERE programme_id = $1::text::uuid GROUP BY 1",
    "card_product": "SELECT name AS key, count(*) AS effects FROM card_products"
    " WHERE programme_id = $1::text::uuid GROUP BY 1",
}

_FIELDS: Final[dict[Kind, dict[str, Any]]] = {
    "cardholder": {"given_name": "Ada", "family_name": "Byron", "email": "ada@example.com"},
    "card_product": {
        "network": "visa",
        "currency": "EUR",
        "form_factor": "virtual",
        "iin": "45600000",
    },
}


@dataclass(frozen=True)
class KeyedAnswer:
    """A final answer to a request."""

    status: int
    body: bytes
    replayed: bool

    @property
    def slug(self) -> str:
        """The problem's slug; empty for a success."""
        with_type = json.loads(self.body) if self.status >= 400 else {}
        return str(with_type.get("type", "")).rpartition("/")[2]


@dataclass
class KeyedRequest:
    """One key, its payloads and their answers."""

    kind: Kind
    key: str
    value: str
    """The unique value by which the database shows the key's effect; ``altered_value``: that of the altered
    payload."""
    altered_value: str
    body: dict[str, Any]
    altered: dict[str, Any]
    answers: list[KeyedAnswer] = field(default_factory=list)
    conflict: KeyedAnswer | None = None
    other_client: KeyedAnswer | None = None
    """Another client's answer under the same key."""
    lost: int = 0
    """The number of answers that were dropped or did not arrive."""


@dataclass(frozen=True)
class Account:
    """A tenant's access token, and the resources that its caller uses."""

    token: str
    programme_id: str
    product_id: str
    card_id: str


class IdempotentCallers:
    """Runs the callers. Call ``open``, ``begin``, ``end`` and ``close``."""

    def __init__(self, base_url: str, own: Account, foreign: Account, seed: int) -> None:
        self._base_url = base_url
        self._own = own
        self._foreign = foreign
        self._dice = random.Random(seed)
        self._serials = itertools.count(1)
        self._work: list[asyncio.Task[None]] = []
        self._http: aiohttp.ClientSession
        self.requests: list[KeyedRequest] = []

    async def open(self) -> None:
        """Create the HTTP client; no caller starts yet."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(self._base_url, timeout=timeout, connector=connector)

    async def close(self) -> None:
        """Disconnect."""
        await self._http.close()

    async def begin(self) -> None:
        """Start the callers."""
        self._work = [asyncio.create_task(self._call_forever()) for _ in range(CALLERS)]

    async def end(self) -> None:
        """Stop the callers; open requests stay unknown."""
        for task in self._work:
            task.cancel()
        results = await asyncio.gather(*self._work, return_exceptions=True)
        self._work = []
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    async def _call_forever(self) -> None:
        while True:
            await self.call_once()
            await asyncio.sleep(self._dice.uniform(0, PAUSE_SECONDS_MAX))

    async def call_once(self) -> KeyedRequest:
        """Send one key's copies until each has an answer."""
        keyed = self._keyed(self._dice.choice(KINDS))
        self.requests.append(keyed)
        copies = self._dice.randint(1, COPIES_MAX)
        await asyncio.gather(*(self._copy(keyed) for _ in range(copies)))
        if keyed.answers:
            keyed.conflict = await self._until_answered(keyed, self._own, keyed.altered)
        if keyed.kind == "cardholder" and self._dice.random() < 0.2:
            body = keyed.body | {"programme_id": self._foreign.programme_id}
            keyed.other_client = await self._until_answered(keyed, self._foreign, body)
        return keyed

    def _keyed(self, kind: Kind) -> KeyedRequest:
        serial = next(self._serials)
        name = f"chaos-{serial}"
        if kind == "load":
            body, altered = (
                {"card_id": self._own.card_id, "amount": {"amount": format_minor(minor), "currency": "EUR"}}
                for minor in (serial, serial + ALTERED_MINOR)
            )
            return KeyedRequest(kind, name, str(serial), str(serial + ALTERED_MINOR), body, altered)
        fields = {"programme_id": self._own.programme_id} | _FIELDS[kind]
        named = "external_ref" if kind == "cardholder" else "name"
        other = f"{name}-other"
        return KeyedRequest(kind, name, name, other, fields | {named: name}, fields | {named: other})

    async def _copy(self, keyed: KeyedRequest) -> None:
        if self._dice.random() < DROPPED_SHARE:
            try:
                async with asyncio.timeout(self._dice.uniform(0.001, 0.06)):
                    await self._send(keyed, self._own, keyed.body)
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            keyed.lost += 1
        answer = await self._until_answered(keyed, self._own, keyed.body)
        if answer is not None:
            keyed.answers.append(answer)

    async def _until_answered(
        self, keyed: KeyedRequest, account: Account, body: dict[str, Any]
    ) -> KeyedAnswer | None:
        """Send until there is a final answer; ``None`` after ``GIVE_UP_SECONDS``."""
        deadline = time.monotonic() + GIVE_UP_SECONDS
        while time.monotonic() < deadline:
            try:
                answer = await self._send(keyed, account, body)
            except (aiohttp.ClientError, TimeoutError, OSError):
                keyed.lost += 1
            else:
                # 401: while the database clock is wrong, the token is not valid.
                if answer.status < 500 and answer.status not in (401, 429) and answer.slug != IN_PROGRESS:
                    return answer
            await asyncio.sleep(RETRY_SECONDS * self._dice.uniform(0.5, 1.5))
        return None

    async def _send(self, keyed: KeyedRequest, account: Account, body: dict[str, Any]) -> KeyedAnswer:
        headers = {"Authorization": f"Bearer {account.token}", "Idempotency-Key": keyed.key}
        path = "/v1/simulated-loads" if keyed.kind == "load" else f"/v1/{keyed.kind.replace('_', '-')}s"
        async with self._http.post(path, json=body, headers=headers) as response:
            raw = await response.read()
            return KeyedAnswer(response.status, raw, response.headers.get("Idempotent-Replayed") == "true")

    # --- checks ---------------------------------------------------------------------------------------------

    async def findings(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[Finding]:
        """The checks of all keys: their effects in the database against their callers' answers."""
        places: dict[Kind, str] = {
            "load": self._own.card_id,
            "cardholder": self._own.programme_id,
            "card_product": self._own.programme_id,
        }
        effects: dict[tuple[Kind, str], int] = {}
        for kind, sql in _EFFECTS.items():
            rows = await connection.fetch(sql, places[kind])
            effects |= {(kind, str(row["key"])): row["effects"] for row in rows}
        return judge(self.requests, effects)

    def bodies(self) -> Iterable[bytes]:
        """The bodies of all answers."""
        for keyed in self.requests:
            yield from (answer.body for answer in keyed.answers)
            yield from (answer.body for answer in (keyed.conflict, keyed.other_client) if answer is not None)


def judge(keyed: list[KeyedRequest], effects: dict[tuple[Kind, str], int]) -> list[Finding]:
    """The checks on plain values. ``effects``: the number of effects by kind and unique value."""
    answered = [each for each in keyed if each.answers]
    contradicted = [each for each in keyed if each.conflict is not None]
    shared = [each for each in answered if each.other_client is not None]
    return [
        _finding(
            "a key has at most one effect, and exactly one if a caller got its success",
            keyed,
            [each for each in keyed if not _effects_allowed(each, effects.get((each.kind, each.value), 0))],
        ),
        _finding(
            "all answers to a key have the same bytes",
            answered,
            [each for each in answered if len({(answer.status, answer.body) for answer in each.answers}) > 1],
        ),
        _finding(
            "at most one answer to a key is not marked as a replay",
            answered,
            [each for each in answered if sum(not answer.replayed for answer in each.answers) > 1],
        ),
        _finding(
            "another payload under a key gets a conflict and has no effect",
            contradicted,
            [
                each
                for each in contradicted
                if (each.conflict and (each.conflict.status, each.conflict.slug)) != (409, REUSED)
                or effects.get((each.kind, each.altered_value), 0)
            ],
        ),
        _finding(
            "the same key of another client is independent",
            shared,
            [each for each in shared if not _independent(each)],
        ),
    ]


def _effects_allowed(keyed: KeyedRequest, effects: int) -> bool:
    return effects == 1 if any(answer.status == 201 for answer in keyed.answers) else effects <= 1


def _independent(keyed: KeyedRequest) -> bool:
    answer = keyed.other_client
    return (
        answer is not None
        and answer.status == 201
        and answer.body not in {each.body for each in keyed.answers}
    )


def _finding(promise: str, subjects: list[KeyedRequest], broken: list[KeyedRequest]) -> Finding:
    examples = tuple(f"{each.kind} {each.key}" for each in broken[:EXAMPLES_MAX])
    return Finding(promise, len(subjects), len(broken), examples)
