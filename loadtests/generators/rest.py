"""The REST side of a benchmark: issuing cards, and whole simulated spends.

A spend is done when its decision is recorded. Nothing polls during a slice, because polling would be measured
too; afterwards a sample of the spends is read, and ``decided_at`` gives their latency.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from engine.limits import DECISION_TIMEOUT_MS_MIN
from engine.money import parse_amount
from loadtests.figures import Samples
from loadtests.generators.http import Api, Connection
from loadtests.generators.schedule import Schedule
from loadtests.generators.workload import AMOUNT, FUNDS, SALE, drawn

SAMPLED_MAX: Final = 300
DECISION_SECONDS_MAX: Final = 15.0
ACCEPTED: Final = 202


DELEGATED: Final = {
    "decisioning": "delegated",
    # Never called: the spends carry the scenario of a silent endpoint.
    "decision_url": "https://127.0.0.1:65000/decide",
    "decision_timeout_ms": DECISION_TIMEOUT_MS_MIN,
}
"""A delegated programme."""


async def issue_cards(api: Api, count: int, controls: Sequence[Mapping[str, Any]] = ()) -> list[str]:
    """Create a programme, a product, a cardholder and ``count`` funded cards; returns the cards' ids."""
    made = await api.call("POST", "/v1/programs", {"name": "Benchmark", "currency": "EUR"}, status=201)
    return await _issue_cards(api, count, made["id"], controls)


async def issue_delegated_cards(api: Api, count: int, budget: str) -> list[str]:
    """The same in a delegated programme with a stand-in budget of ``budget`` euro."""
    about = {"name": "Stand-in", "currency": "EUR"} | DELEGATED
    made = await api.call("POST", "/v1/programs", about, status=201)
    policy = {
        "mode": "approve_within_limits",
        "max_amount": FUNDS,
        "max_total_exposure": {"amount": budget, "currency": "EUR"},
    }
    await api.call("PUT", f"/v1/programs/{made['id']}/stip-policy", policy, status=200)
    card_ids = await _issue_cards(api, count, made["id"])
    declared = {"balance": {"amount": FUNDS, "currency": "EUR"}}
    paths = [f"/v1/cards/{id_}/declared-balance" for id_ in card_ids]
    await asyncio.gather(*(api.call("PUT", path, declared, status=200) for path in paths))
    return card_ids


async def _issue_cards(
    api: Api, count: int, programme_id: str, controls: Sequence[Mapping[str, Any]] = ()
) -> list[str]:
    product = await api.call(
        "POST",
        "/v1/card-products",
        {
            "programme_id": programme_id,
            "name": "Benchmark",
            "network": "visa",
            "currency": "EUR",
            "form_factor": "virtual",
            "iin": "45600000",
            "control_defaults": list(controls),
        },
        status=201,
    )
    person = {"given_name": "Ada", "family_name": "Byron", "email": "ada@example.com"}
    holder = await api.call("POST", "/v1/cardholders", {"programme_id": programme_id, **person}, status=201)
    wanted = {"card_product_id": product["id"], "cardholder_id": holder["id"]}
    return list(await asyncio.gather(*(_issue(api, wanted) for _ in range(count))))


async def _issue(api: Api, wanted: dict[str, str]) -> str:
    card = await api.call("POST", "/v1/cards", wanted, status=201)
    load = {"card_id": card["id"], "amount": {"amount": FUNDS, "currency": "EUR"}}
    await api.call("POST", "/v1/simulated-loads", load, status=201)
    return str(card["id"])


async def held_minor(api: Api, card_ids: Sequence[str]) -> int:
    """The sum of holds on the cards, in minor units: each approval of a benchmark leaves a hold."""
    balances = await asyncio.gather(*(api.call("GET", f"/v1/cards/{id_}/balance") for id_ in card_ids))
    return sum(parse_amount(balance["held"]) or 0 for balance in balances)


class SpendLoad:
    """Simulated spends over ``connections`` keep-alive connections; see ``workload.Load``. Either one open
    request on each at all times, or ``per_second`` at fixed instants."""

    def __init__(
        self, api: Api, card_ids: Sequence[str], connections: int, *, per_second: float = 0.0
    ) -> None:
        self._api = api
        self._messages = drawn([_message(api, card_id) for card_id in card_ids])
        self._count = connections
        self._per_second = per_second
        self._schedule: Schedule | None = None
        self._accepted: list[tuple[float, bytes]] = []
        self._samples = Samples(partial=True)
        self._running = True
        self._connections: list[Connection] = []
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def pids(self) -> tuple[int, ...]:
        return (os.getpid(),)

    @property
    def counts_as_server(self) -> bool:
        return False

    async def start(self) -> None:
        self._connections = [await self._api.connect() for _ in range(self._count)]
        if self._per_second:
            self._schedule = Schedule(self._per_second, time.monotonic())
        self._tasks = [asyncio.create_task(self._work(connection)) for connection in self._connections]

    async def stop(self) -> Samples:
        self._running = False
        await asyncio.gather(*self._tasks)
        for connection in self._connections:
            connection.close()
        step = max(1, len(self._accepted) // SAMPLED_MAX)
        # Wall clock minus monotonic clock: converts the records' instants to the samples' clock.
        offset = time.time() - time.monotonic()
        for started, body in self._accepted[::step]:
            await self._read_back(started, msgspec.json.decode(body)["simulation_id"], offset)
        return self._samples

    async def _work(self, connection: Connection) -> None:
        while self._running:
            started = await self._next_start()
            response = await connection.request(next(self._messages))
            if response.status == ACCEPTED:
                # Every card has funds: each accepted spend must be approved, or the final proof fails.
                self._samples.approved += 1
                self._accepted.append((started, response.body))
            else:
                self._samples.refused += 1

    async def _next_start(self) -> float:
        """When to send the next spend: now, or when it is due."""
        if self._schedule is None:
            return time.monotonic()
        due = self._schedule.take()
        await asyncio.sleep(due - time.monotonic())
        self._samples.lateness.append(time.monotonic() - due)
        return due

    async def _read_back(self, started: float, simulation_id: str, offset: float) -> None:
        deadline = time.monotonic() + DECISION_SECONDS_MAX
        record: dict[str, Any] = {}
        while record.get("state") != "decided":
            if time.monotonic() > deadline or record.get("state") == "failed":
                self._samples.lost += 1
                return
            record = await self._api.call("GET", f"/v1/simulated-spends/{simulation_id}")
        self._samples.refused += record["decision"] != "approved"
        self._samples.started.append(started)
        self._samples.done.append(datetime.fromisoformat(record["decided_at"]).timestamp() - offset)


def _message(api: Api, card_id: str) -> bytes:
    amount = {"amount": AMOUNT, "currency": SALE["currency"]}
    names = ("mcc", "merchant_name", "merchant_country", "channel")
    body = {"card_id": card_id, "amount": amount, **{name: SALE[name] for name in names}}
    return api.message("POST", "/v1/simulated-spends", msgspec.json.encode(body))
