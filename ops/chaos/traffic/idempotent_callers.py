"""Callers of the API who say everything several times at once under one idempotency key, hang up on some of
the answers, and ask again until they have one (G5).

They are there all the time, so whatever is done to the installation is done to them. In the end the database
tells how often each key has had its effect.
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
"""For one attempt."""
HEARD_SECONDS_MAX: Final = 90.0
"""Whoever has asked again for so long without an answer gives up: nobody knows."""
HANGS_UP: Final = 0.3
"""How many copies hang up on their first answer."""
OTHER_MINOR: Final = 10_000_000
"""Added to an amount to make another payload of it."""
IN_PROGRESS: Final = "idempotency-in-progress"
REUSED: Final = "idempotency-key-reused"

Kind = Literal["load", "cardholder", "card_product"]
KINDS: Final[tuple[Kind, ...]] = ("load", "load", "cardholder", "card_product")

# How often each key, told by the value that is its own, has had its effect.
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
    """An answer that says what became of a request."""

    status: int
    body: bytes
    replayed: bool

    @property
    def slug(self) -> str:
        """Of a problem, else empty."""
        with_type = json.loads(self.body) if self.status >= 400 else {}
        return str(with_type.get("type", "")).rpartition("/")[2]


@dataclass
class KeyedRequest:
    """One key, what was said under it and what was heard."""

    kind: Kind
    key: str
    own: str
    """The value by which the database knows its effect, and that of another payload."""
    other: str
    body: dict[str, Any]
    altered: dict[str, Any]
    heard: list[KeyedAnswer] = field(default_factory=list)
    conflict: KeyedAnswer | None = None
    elsewhere: KeyedAnswer | None = None
    """What another client heard under the same key."""
    lost: int = 0
    """Answers that were not waited for, or did not come."""


@dataclass(frozen=True)
class Account:
    """A tenant's client, and what it works with."""

    token: str
    programme_id: str
    product_id: str
    card_id: str


class IdempotentCallers:
    """An async context manager around the time in which they call."""

    def __init__(self, base_url: str, mine: Account, theirs: Account, seed: int) -> None:
        self._base_url = base_url
        self._mine = mine
        self._theirs = theirs
        self._dice = random.Random(seed)
        self._serials = itertools.count(1)
        self._work: list[asyncio.Task[None]] = []
        self._http: aiohttp.ClientSession
        self.keyed: list[KeyedRequest] = []

    async def open(self) -> None:
        """Connect when asked to; nobody calls yet."""
        timeout = aiohttp.ClientTimeout(total=ANSWER_SECONDS_MAX)
        connector = aiohttp.TCPConnector(limit=0)
        self._http = aiohttp.ClientSession(self._base_url, timeout=timeout, connector=connector)

    async def close(self) -> None:
        """Disconnect."""
        await self._http.close()

    async def begin(self) -> None:
        """Everybody calls, for ever."""
        self._work = [asyncio.create_task(self._call_on()) for _ in range(CALLERS)]

    async def end(self) -> None:
        """What is under way stays unknown."""
        for task in self._work:
            task.cancel()
        results = await asyncio.gather(*self._work, return_exceptions=True)
        self._work = []
        for failure in results:
            if isinstance(failure, Exception):
                raise failure

    async def _call_on(self) -> None:
        while True:
            await self.once()
            await asyncio.sleep(self._dice.uniform(0, PAUSE_SECONDS_MAX))

    async def once(self) -> KeyedRequest:
        """One key from its first copy to its last answer."""
        keyed = self._keyed(self._dice.choice(KINDS))
        self.keyed.append(keyed)
        copies = self._dice.randint(1, COPIES_MAX)
        await asyncio.gather(*(self._copy(keyed) for _ in range(copies)))
        if keyed.heard:
            keyed.conflict = await self._until_heard(keyed, self._mine, keyed.altered)
        if keyed.kind == "cardholder" and self._dice.random() < 0.2:
            body = keyed.body | {"programme_id": self._theirs.programme_id}
            keyed.elsewhere = await self._until_heard(keyed, self._theirs, body)
        return keyed

    def _keyed(self, kind: Kind) -> KeyedRequest:
        serial = next(self._serials)
        name = f"chaos-{serial}"
        if kind == "load":
            body, altered = (
                {"card_id": self._mine.card_id, "amount": {"amount": format_minor(minor), "currency": "EUR"}}
                for minor in (serial, serial + OTHER_MINOR)
            )
            return KeyedRequest(kind, name, str(serial), str(serial + OTHER_MINOR), body, altered)
        fields = {"programme_id": self._mine.programme_id} | _FIELDS[kind]
        named = "external_ref" if kind == "cardholder" else "name"
        other = f"{name}-other"
        return KeyedRequest(kind, name, name, other, fields | {named: name}, fields | {named: other})

    async def _copy(self, keyed: KeyedRequest) -> None:
        if self._dice.random() < HANGS_UP:
            try:
                async with asyncio.timeout(self._dice.uniform(0.001, 0.06)):
                    await self._ask(keyed, self._mine, keyed.body)
            except (aiohttp.ClientError, TimeoutError, OSError):
                pass
            keyed.lost += 1
        heard = await self._until_heard(keyed, self._mine, keyed.body)
        if heard is not None:
            keyed.heard.append(heard)

    async def _until_heard(
        self, keyed: KeyedRequest, account: Account, body: dict[str, Any]
    ) -> KeyedAnswer | None:
        """Ask, and ask again while nobody says what has become of it."""
        deadline = time.monotonic() + HEARD_SECONDS_MAX
        while time.monotonic() < deadline:
            try:
                heard = await self._ask(keyed, account, body)
            except (aiohttp.ClientError, TimeoutError, OSError):
                keyed.lost += 1
            else:
                # 401: by a wrong clock of the database its token is not valid at the moment.
                if heard.status < 500 and heard.status not in (401, 429) and heard.slug != IN_PROGRESS:
                    return heard
            await asyncio.sleep(RETRY_SECONDS * self._dice.uniform(0.5, 1.5))
        return None

    async def _ask(self, keyed: KeyedRequest, account: Account, body: dict[str, Any]) -> KeyedAnswer:
        headers = {"Authorization": f"Bearer {account.token}", "Idempotency-Key": keyed.key}
        path = "/v1/simulated-loads" if keyed.kind == "load" else f"/v1/{keyed.kind.replace('_', '-')}s"
        async with self._http.post(path, json=body, headers=headers) as response:
            raw = await response.read()
            return KeyedAnswer(response.status, raw, response.headers.get("Idempotent-Replayed") == "true")

    # --- what it has come to ------------------------------------------------------------------------------

    async def findings(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[Finding]:
        """What the database says of every key, and what its callers heard."""
        places: dict[Kind, str] = {
            "load": self._mine.card_id,
            "cardholder": self._mine.programme_id,
            "card_product": self._mine.programme_id,
        }
        effects: dict[tuple[Kind, str], int] = {}
        for kind, sql in _EFFECTS.items():
            rows = await connection.fetch(sql, places[kind])
            effects |= {(kind, str(row["key"])): row["effects"] for row in rows}
        return judge(self.keyed, effects)

    def bodies(self) -> Iterable[bytes]:
        """Every body that anybody heard."""
        for keyed in self.keyed:
            yield from (heard.body for heard in keyed.heard)
            yield from (heard.body for heard in (keyed.conflict, keyed.elsewhere) if heard is not None)


def judge(keyed: list[KeyedRequest], effects: dict[tuple[Kind, str], int]) -> list[Finding]:
    """Every check, on plain values. ``effects``: how often what a key is known by is in the database."""
    answered = [each for each in keyed if each.heard]
    contradicted = [each for each in keyed if each.conflict is not None]
    shared = [each for each in answered if each.elsewhere is not None]
    return [
        _finding(
            "a key has at most one effect, and one if anybody heard of it",
            keyed,
            [each for each in keyed if not _effects_allowed(each, effects.get((each.kind, each.own), 0))],
        ),
        _finding(
            "every answer to a key is the same bytes",
            answered,
            [each for each in answered if len({(heard.status, heard.body) for heard in each.heard}) > 1],
        ),
        _finding(
            "only one answer to a key is not marked as a replay",
            answered,
            [each for each in answered if sum(not heard.replayed for heard in each.heard) > 1],
        ),
        _finding(
            "another payload under a key is a conflict, and has no effect",
            contradicted,
            [
                each
                for each in contradicted
                if (each.conflict and (each.conflict.status, each.conflict.slug)) != (409, REUSED)
                or effects.get((each.kind, each.other), 0)
            ],
        ),
        _finding(
            "the same key of another client is its own",
            shared,
            [each for each in shared if not _independent(each)],
        ),
    ]


def _effects_allowed(keyed: KeyedRequest, effects: int) -> bool:
    return effects == 1 if any(heard.status == 201 for heard in keyed.heard) else effects <= 1


def _independent(keyed: KeyedRequest) -> bool:
    heard = keyed.elsewhere
    return heard is not None and heard.status == 201 and heard.body not in {each.body for each in keyed.heard}


def _finding(promise: str, subjects: list[KeyedRequest], broken: list[KeyedRequest]) -> Finding:
    examples = tuple(f"{each.kind} {each.key}" for each in broken[:EXAMPLES_MAX])
    return Finding(promise, len(subjects), len(broken), examples)
