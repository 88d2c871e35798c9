"""Dispatchers with a clock, receivers and a stream that tests control; the database is real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import datetime

from actors.egress.answers import EgressError, Received
from actors.ids import new_id
from actors.outbox.stream import StreamEntry, StreamUnavailableError, WakeUp
from actors.vault import Vault
from actors.webhooks.delivery import DeliveryLease
from actors.webhooks.delivery_store import DeliveryStore, delivery_connection
from actors.webhooks.dispatcher import Dispatcher
from actors.webhooks.sender import Sender
from actors.webhooks.signing_secrets import SigningSecrets
from engine.instant import to_datetime
from engine.webhooks.signature import HEADER
from tests.support.actors.outbox.database import NOW_MS, EventDatabase

SECRET = "whsec_dGVzdA"

Answer = Callable[[], Received | EgressError]


class ManualClock:
    """A clock that only tests move."""

    def __init__(self, at_ms: int = NOW_MS) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms

    def monotonic(self) -> float:
        return self.at_ms / 1000

    def instant(self) -> datetime:
        """The instant by which deliveries are due."""
        return to_datetime(self.at_ms)

    def forward(self, seconds: float) -> None:
        """Advance the clock."""
        self.at_ms += round(seconds * 1000)


@dataclass(frozen=True)
class Request:
    """A request as its receiver got it."""

    url: str
    body: bytes
    signature: str
    at_ms: int


@dataclass
class Receivers:
    """All receivers, in place of ``Egress``. The default answer is 200."""

    clock: ManualClock
    answers: dict[str, Answer] = field(default_factory=dict)
    hanging: dict[str, asyncio.Event] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float,
        body_bytes_max: int,
        live: bool,
    ) -> Received:
        assert (timeout_seconds, body_bytes_max) == (10, 64 * 1024)
        self.requests.append(Request(url, body, headers[HEADER], self.clock.at_ms))
        if url in self.hanging:
            await self.hanging[url].wait()
        answer = self.answers.get(url, lambda: Received(200, b"", False))()
        if isinstance(answer, EgressError):
            raise answer
        return answer

    def to(self, url: str) -> list[Request]:
        """The requests to one receiver."""
        return [request for request in self.requests if request.url == url]


class MemoryStream:
    """A wake-up stream in memory."""

    def __init__(self, *, available: bool = True) -> None:
        self.available = available
        self.waiting: list[StreamEntry] = []
        self.acknowledged: list[str] = []
        self._numbers = iter(range(1, 1_000_000))

    def add(self, delivery_id: str, endpoint_id: str) -> None:
        self.waiting.append(StreamEntry(f"{next(self._numbers)}-0", WakeUp(delivery_id, endpoint_id)))

    async def read(self, count: int) -> list[StreamEntry]:
        await asyncio.sleep(0.005)
        taken, self.waiting = self.waiting[:count], self.waiting[count:]
        return taken

    async def take_over(self, _count: int) -> list[StreamEntry]:
        return []

    async def acknowledge(self, entry_ids: Sequence[str]) -> None:
        if not self.available:
            raise StreamUnavailableError
        self.acknowledged += entry_ids


def status(code: int) -> Answer:
    return lambda: Received(code, b"", False)


def failing(reason: str) -> Answer:
    return lambda: EgressError(reason)


def a_lease(number: int = 1) -> DeliveryLease:
    """The lease of some delivery, for attempt ``number``."""
    return DeliveryLease(
        delivery_id=new_id(),
        endpoint_id=new_id(),
        number=number,
        started_at=to_datetime(NOW_MS),
        url="https://receiver.test/hook",
        sealed_secrets=(),
        live=False,
        event_id=new_id(),
        type="card.created",
        created_at=to_datetime(NOW_MS),
        data="{}",
    )


class DeliverySetup(AsyncExitStack):
    """Receivers, stream, clock, and functions that create endpoints, deliveries and dispatchers. Its exit
    closes the connections of the dispatchers."""

    def __init__(self, database: EventDatabase, database_url: str) -> None:
        super().__init__()
        self.database = database
        self.clock = ManualClock()
        self.receivers = Receivers(self.clock)
        self.stream = MemoryStream()
        self.secrets = SigningSecrets(Vault((bytes(range(32)),)))
        self._database_url = database_url
        self._tenant = ""

    async def tenant(self) -> str:
        self._tenant = self._tenant or await self.database.tenant()
        return self._tenant

    async def endpoint(self, url: str = "https://receiver.test/hook", status: str = "enabled") -> str:
        """A new endpoint whose secret is ``SECRET``."""
        id_ = await self.database.endpoint(await self.tenant(), url=url, status=status)
        await self.database.connection.execute(
            "UPDATE webhook_endpoints SET secret_sealed = $2 WHERE id = $1",
            id_,
            self.secrets.seal(id_, SECRET),
        )
        return id_

    async def deliveries(self, endpoint_id: str, count: int = 1) -> list[str]:
        """New events and their deliveries to one endpoint, due now."""
        tenant = await self.tenant()
        connection = self.database.connection
        rows = await connection.fetch(
            "INSERT INTO event_rows (id, tenant_id, live, type, created_at, data)"
            " SELECT time_ordered_id($3), $1, false, 'card.created', $3, '{\"n\":' || n || ',\"é\":1.50}'"
            " FROM generate_series(1, $2::int) n RETURNING id",
            tenant,
            count,
            to_datetime(NOW_MS),
        )
        rows = await connection.fetch(
            "INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, state, next_attempt_at)"
            " SELECT time_ordered_id($4), $1, false, event_id, $2, 'pending', $4"
            " FROM unnest($3::uuid[]) event_id RETURNING id::text",
            tenant,
            endpoint_id,
            [row["id"] for row in rows],
            self.clock.instant(),
        )
        return [row["id"] for row in rows]

    def dispatcher(self, name: str = "dispatcher-0") -> Dispatcher:
        """A new dispatcher, not started."""
        sender = Sender(self.receivers, self.secrets, self.clock)
        return Dispatcher(self.store(name), sender, self.stream, self.clock)

    def store(self, name: str = "dispatcher-0") -> DeliveryStore:
        claiming, recording, looking = (
            delivery_connection(self._database_url, f"test-{name}-{use}")
            for use in ("claim", "record", "look")
        )
        for connection in (claiming, recording, looking):
            self.callback(connection.close)
        return DeliveryStore(claiming, recording, looking, name, self.clock.instant)

    async def row(self, delivery_id: str) -> dict[str, object]:
        row = await self.database.connection.fetchrow("SELECT * FROM deliveries WHERE id = $1", delivery_id)
        assert row is not None
        return dict(row)

    async def attempts(self, delivery_id: str) -> list[tuple[int, int | None, str | None]]:
        """Number, status and error of each recorded attempt."""
        rows = await self.database.connection.fetch(
            "SELECT number, status_code, error FROM delivery_attempts WHERE delivery_id = $1 ORDER BY number",
            delivery_id,
        )
        return [(row["number"], row["status_code"], row["error"]) for row in rows]

    async def states(self) -> dict[str, int]:
        """Number of deliveries by state."""
        rows = await self.database.connection.fetch(
            "SELECT state, count(*) AS n FROM deliveries GROUP BY state"
        )
        return {row["state"]: row["n"] for row in rows}


async def work(dispatcher: Dispatcher) -> None:
    """Make all attempts that are due at this instant."""
    while True:
        while await dispatcher.sweep():
            pass
        if not await dispatcher.claim_batch():
            break
        await dispatcher.drain()
