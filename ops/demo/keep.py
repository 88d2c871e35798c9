"""``stanchion demo --keep``: an installation that keeps running, with a day of traffic in it.

It ends with the console's address and a way to sign in. Then a little traffic continues until Ctrl-C, which
stops the installation; without ``--var`` its data are removed.
"""

from __future__ import annotations

import asyncio
import json
import random
import signal
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from ops.commands.decide import DecisionEndpoint
from ops.commands.sign_in import sign_in_link
from ops.demo.checks import DemoError
from ops.demo.day import HOUR_SECONDS, PARTNER_DOWN, RECEIVER_DOWN, Day
from ops.demo.day_plan import HOURS, PURCHASES, Purchase, plan
from ops.embedded.local_https import Answer, Request, local_receiver
from ops.supervision.installation import RUN_FILE
from ops.supervision.running_installation import RunningInstallation
from stanchion import AsyncClient, StanchionError

SETTINGS: Final = {"STANCHION_AUTO_CLEAR_SECONDS": "20"}
SEED: Final = 20_26
RETRIED_SECONDS_MAX: Final = 60.0
TRICKLE_SECONDS: Final = 4.0
"""Mean pause between purchases after the day."""
FAILED_STATUS: Final = 503


def keep(
    var_dir: Path | None = None, *, hour_seconds: float = HOUR_SECONDS, purchases: int = PURCHASES
) -> None:
    """Run it until SIGINT or SIGTERM. Raises DemoError or RunningError."""
    console = Console(soft_wrap=True, highlight=False)
    with TemporaryDirectory(prefix="stanchion-demo-") as folder:
        state = var_dir or Path(folder) / "var"
        console.print("[bold]Starting PostgreSQL, Redis, Ray and all processes[/bold] ...")
        with RunningInstallation(state, SETTINGS) as record:
            try:
                asyncio.run(_run(console, state, record, hour_seconds, purchases))
            except StanchionError as failure:
                raise DemoError(str(failure)) from None
            console.print("Stopping ...")
    console.print("Stopped." if var_dir is None else f"Stopped; the data stay in {var_dir}.")


async def _run(
    console: Console, state: Path, record: dict[str, Any], hour_seconds: float, purchases: int
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    living = asyncio.create_task(_live(console, state, record, hour_seconds, purchases))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((living, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if living.done():
        living.result()
    living.cancel()
    with suppress(asyncio.CancelledError):
        await living


async def _live(
    console: Console, state: Path, record: dict[str, Any], hour_seconds: float, purchases: int
) -> None:
    """The day, its summary, and the traffic after it; ends only by cancellation or a failure."""
    planned = plan(SEED, purchases)
    async with AsyncClient.of_installation(state / RUN_FILE) as api, Servers(state) as servers:
        day = Day(api, hour_seconds)
        console.print("  4 programmes, 2 rules, a stand-in policy, cards, two webhook endpoints")
        await servers.subscribe(api)
        servers.partner.secret = await day.prepare(servers.decision_url)
        console.print(
            f"[bold]A day in {HOURS * hour_seconds:.0f} seconds[/bold]: each hour lasts {hour_seconds:g} s,"
            " because decisions cannot be back-dated"
        )
        async with servers.timetable(hour_seconds), _bar(console, hour_seconds):
            await day.run(planned)
        await servers.retried()
        await summary(console, api, day, servers)
        await invite(console, state, record)
        await _trickle(day, planned)


class Servers:
    """The demo's own servers: a partner's decision endpoint, and two webhook receivers, of which one fails
    for some hours. They serve as long as the installation runs."""

    def __init__(self, state: Path) -> None:
        self._state = state
        self.partner = DecisionEndpoint(Console(quiet=True), "approve")
        self.receiver_down = False
        self.failed: set[str] = set()
        """Ids of events that the failing receiver has refused."""
        self.recovered: set[str] = set()
        """Those of them that it has accepted later."""
        self._recovered = asyncio.Event()
        self._recovered.set()
        self._urls: list[str] = []
        self._serving = AsyncExitStack()
        self.endpoints: list[str] = []
        self._api: AsyncClient | None = None

    @property
    def decision_url(self) -> str:
        """The partner's endpoint."""
        return f"{self._urls[0]}/decide"

    async def __aenter__(self) -> Self:
        for handler in (self.partner.handle, self._fragile, self._steady):
            receiver = local_receiver(self._state, handler)
            self._urls.append(await self._serving.enter_async_context(receiver))
        return self

    async def __aexit__(self, *_failure: object) -> None:
        if self._api is not None:
            # No delivery may be sent to a port that another program can get.
            for endpoint in self.endpoints:
                with suppress(StanchionError):
                    await self._api.webhook_endpoints.delete(endpoint)
        await self._serving.aclose()

    async def subscribe(self, api: AsyncClient) -> None:
        """Register both receivers."""
        self._api = api
        for path, url, types in (
            ("orders", self._urls[1], ["authorization.decided"]),
            ("ledger", self._urls[2], ["ledger.entry.posted"]),
        ):
            endpoint = await api.webhook_endpoints.create(
                url=f"{url}/{path}", event_types=types, description=f"Demo: {path}"
            )
            self.endpoints.append(endpoint["id"])

    @asynccontextmanager
    async def timetable(self, hour_seconds: float) -> AsyncIterator[None]:
        """Let the servers fail and recover at their hours."""
        loop = asyncio.get_running_loop()
        timers = [
            loop.call_later(hour * hour_seconds, change)
            for hour, change in (
                (RECEIVER_DOWN[0], self._receiver_fails),
                (RECEIVER_DOWN[1], self._receiver_recovers),
                (PARTNER_DOWN[0], self._partner_fails),
                (PARTNER_DOWN[1], self._partner_recovers),
            )
        ]
        try:
            yield
        finally:
            for timer in timers:
                timer.cancel()
            self._receiver_recovers()
            self._partner_recovers()

    async def retried(self) -> None:
        """Wait until every refused event has been accepted, at most ``RETRIED_SECONDS_MAX``."""
        with suppress(TimeoutError):
            async with asyncio.timeout(RETRIED_SECONDS_MAX):
                await self._recovered.wait()

    async def _fragile(self, request: Request) -> Answer:
        event = json.loads(request.body)["id"]
        if self.receiver_down:
            self.failed.add(event)
            self._note_recovery()
            return Answer(FAILED_STATUS)
        if event in self.failed:
            self.recovered.add(event)
            self._note_recovery()
        return Answer(200)

    def _note_recovery(self) -> None:
        if self.failed == self.recovered:
            self._recovered.set()
        else:
            self._recovered.clear()

    async def _steady(self, _request: Request) -> Answer:
        return Answer(200)

    def _receiver_fails(self) -> None:
        self.receiver_down = True

    def _receiver_recovers(self) -> None:
        self.receiver_down = False

    def _partner_fails(self) -> None:
        self.partner.behaviour = "down"

    def _partner_recovers(self) -> None:
        self.partner.behaviour = "approve"


@asynccontextmanager
async def _bar(console: Console, hour_seconds: float) -> AsyncIterator[None]:
    """Show the time of the day, at a terminal."""
    columns = (TextColumn("  {task.fields[time]}"), BarColumn(40))
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        shown = progress.add_task("day", total=HOURS, time="00:00")

        async def move() -> None:
            begin = time.monotonic()
            while True:
                hour = min(HOURS, (time.monotonic() - begin) / hour_seconds)
                progress.update(shown, completed=hour, time=f"{int(hour):02d}:00")
                await asyncio.sleep(hour_seconds / 4)

        moving = asyncio.create_task(move())
        try:
            yield
        finally:
            moving.cancel()


async def summary(console: Console, api: AsyncClient, day: Day, servers: Servers) -> None:
    """What the day has left behind."""
    traffic = day.traffic
    if not traffic.approved or not traffic.declined:
        raise DemoError("the day has no approval or no decline")
    declined = ", ".join(f"{count} {reason}" for reason, count in traffic.declined.most_common())
    console.print(f"  {traffic.approved} purchases approved; declined: {declined}", markup=False)
    if traffic.unanswered:
        console.print(f"  purchases without an answer in time: {traffic.unanswered}")
    followed = ", ".join(f"{count} {kind}" for kind, count in sorted(traffic.follow_ups.items()))
    console.print(f"  follow-ups: {followed}", markup=False)
    outages = [event async for event in api.events.list(types=["authorization.stip_outage.finished"])]
    console.print(f"  outages of the partner's endpoint, with stand-in: {len(outages)}")
    console.print(
        f"  webhooks refused by a receiver: {len(servers.failed)}; accepted later: {len(servers.recovered)}"
    )


async def invite(console: Console, state: Path, record: dict[str, Any]) -> None:
    """How to sign in to the console."""
    # In a thread: the command has an event loop of its own.
    link = await asyncio.to_thread(sign_in_link, state)
    console.print("\n[bold]The console[/bold]")
    console.print(f"  {link}", markup=False)
    console.print(
        f"API reference: {record['base_url']}/docs/reference. A little traffic continues."
        " Ctrl-C stops everything."
    )


async def _trickle(day: Day, planned: list[Purchase]) -> None:
    """A purchase every few seconds, so that live pages move."""
    chance = random.Random(SEED)
    while True:
        await asyncio.sleep(chance.expovariate(1 / TRICKLE_SECONDS))
        await day.buy(chance.choice(planned))
