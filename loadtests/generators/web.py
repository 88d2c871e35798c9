"""Single decisions over HTTP, made by a rival that has a web server and no card network behind it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from typing import Final

import msgspec

from loadtests.figures import Samples
from loadtests.generators.http import Api, Connection
from loadtests.generators.wire import Address
from loadtests.generators.workload import AMOUNT, SALE, drawn

PATH: Final = "/authorizations"
OK: Final = 200
APPROVED: Final = b'"response_code":"00"'


class WebLoad:
    """One open request on each of ``connections``; see ``workload.Load``."""

    def __init__(self, addresses: Sequence[Address], card_ids: Sequence[str], connections: int) -> None:
        self._apis = [Api(f"http://{host}:{port}", 0) for host, port in addresses]
        self._messages = drawn([_message(self._apis[0], card_id) for card_id in card_ids])
        self._count = connections
        self._samples = Samples()
        self._running = True
        self._tasks: list[asyncio.Task[None]] = []
        self._connections: list[Connection] = []

    @property
    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    @property
    def inside(self) -> bool:
        return False

    async def start(self) -> None:
        for number in range(self._count):
            self._connections.append(await self._apis[number % len(self._apis)].connect())
        self._tasks = [asyncio.create_task(self._work(each)) for each in self._connections]

    async def stop(self) -> Samples:
        self._running = False
        await asyncio.gather(*self._tasks)
        for connection in self._connections:
            connection.close()
        return self._samples

    async def _work(self, connection: Connection) -> None:
        while self._running:
            started = time.monotonic()
            response = await connection.request(next(self._messages))
            self._samples.started.append(started)
            self._samples.done.append(time.monotonic())
            if response.status == OK and APPROVED in response.body:
                self._samples.approved += 1
            else:
                self._samples.refused += 1


def _message(api: Api, card_id: str) -> bytes:
    amount = {"amount": AMOUNT, "currency": SALE["currency"]}
    names = ("mcc", "merchant_name", "merchant_country", "channel")
    body = {"card_id": card_id, "amount": amount, **{name: SALE[name] for name in names}}
    return api.message("POST", PATH, msgspec.json.encode(body))
