"""Receivers over real HTTPS, with certificates of the test's own authority."""

from __future__ import annotations

import asyncio
import json
import random
import ssl
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from actors.egress.receivers import permitted
from ops.embedded.local_https import HOST, Answer, Request, serving


@dataclass
class Receiver:
    """One receiver: the requests it got, and its answers."""

    answer: Callable[[Request], int] = lambda _request: 200
    headers: dict[str, str] = field(default_factory=dict)
    hanging: asyncio.Event | None = None
    requests: list[Request] = field(default_factory=list)
    taken: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Number of 200 answers by event id."""
    url: str = ""

    async def __call__(self, request: Request) -> Answer:
        self.requests.append(request)
        if self.hanging is not None:
            await self.hanging.wait()
        status = self.answer(request)
        if status == 200:
            self.taken[json.loads(request.body)["id"]] += 1
        return Answer(status, b"thank you", self.headers)

    def bodies(self) -> dict[str, set[bytes]]:
        """The distinct bodies of each event, by its id."""
        found: dict[str, set[bytes]] = defaultdict(set)
        for request in self.requests:
            found[json.loads(request.body)["id"]].add(request.body)
        return found


def failing_sometimes(share: float, seed: int) -> Callable[[Request], int]:
    """Answer 500 to ``share`` of the requests, but at most three times for each body."""
    draw = random.Random(seed)
    failures: dict[bytes, int] = defaultdict(int)

    def answer(request: Request) -> int:
        if failures[request.body] == 3 or draw.random() >= share:
            return 200
        failures[request.body] += 1
        return 500

    return answer


@asynccontextmanager
async def receiving(
    tls: ssl.SSLContext, receiver: Receiver, permitted_by: Path | None = None
) -> AsyncIterator[Receiver]:
    """Serve a receiver and set its ``url``. ``permitted_by``: the state folder of the installation that may
    call it, if its settings do not allow loopback.
    """
    async with serving(tls, receiver) as address:
        receiver.url = f"{address}/hook"
        if permitted_by is None:
            yield receiver
            return
        with permitted(permitted_by, HOST, int(address.rpartition(":")[2])):
            yield receiver
