"""A webhook endpoint that is always available, which keeps the deliveries to check that none is missing or
altered (G7, G9)."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import asyncpg

from ops.audit import EXAMPLES_MAX, Finding
from ops.embedded.local_https import Answer, Request, local_receiver
from stanchion import SIGNATURE_HEADER, Client, SignatureError, verify_signature

TYPES: Final = ["ledger.hold.released", "ledger.hold.captured"]
"""Event types that are frequent, but rarer than one per decision: the receiver shares the machine."""
DELIVERED_SECONDS_MAX: Final = 150.0
"""After a dispatcher's death its attempt is repeated a minute later."""

_EVENTS: Final = "SELECT id::text FROM events WHERE type = ANY($1)"
_PENDING: Final = "SELECT count(*) FROM deliveries WHERE state = 'pending'"


class WebhookReceiver:
    """Call ``open`` before the first event, ``findings`` at the end."""

    def __init__(self) -> None:
        self._stack = AsyncExitStack()
        self._bodies: dict[str, set[bytes]] = defaultdict(set)
        self.secret = ""
        self._unsigned: list[str] = []
        self.received = 0

    async def open(self, var_dir: Path, client: Client) -> None:
        """Listen, and register the endpoint."""
        url = await self._stack.enter_async_context(local_receiver(var_dir, self._receive))
        with client:
            endpoint = await asyncio.to_thread(client.webhook_endpoints.create, url=url, event_types=TYPES)
        self.secret = endpoint["secret"]

    async def close(self) -> None:
        await self._stack.aclose()

    async def _receive(self, request: Request) -> Answer:
        self.received += 1
        event_id = str(json.loads(request.body)["id"])
        self._bodies[event_id].add(request.body)
        try:
            verify_signature(request.headers.get(SIGNATURE_HEADER.lower()), request.body, self.secret)
        except SignatureError:
            self._unsigned.append(event_id)
        return Answer()

    async def findings(self, connection: asyncpg.Connection[asyncpg.Record]) -> list[Finding]:
        """The checks of every event of the subscribed types."""
        deadline = time.monotonic() + DELIVERED_SECONDS_MAX
        rows = await connection.fetch(_EVENTS, TYPES)
        published = [row["id"] for row in rows]
        while True:
            pending = await connection.fetchval(_PENDING)
            done = not pending and self._bodies.keys() >= set(published)
            if done or time.monotonic() > deadline:
                break
            await asyncio.sleep(0.5)
        missing = [each for each in published if each not in self._bodies]
        changed = [each for each, bodies in self._bodies.items() if len(bodies) > 1]
        return [
            _finding("each event reached its endpoint", len(published), missing),
            _finding("all deliveries of an event have the same bytes", len(self._bodies), changed),
            _finding("every delivery is signed", self.received, self._unsigned),
            Finding("no delivery stays pending", len(published), pending, ()),
        ]


def _finding(promise: str, subjects: int, broken: list[str]) -> Finding:
    return Finding(promise, subjects, len(broken), tuple(broken[:EXAMPLES_MAX]))
