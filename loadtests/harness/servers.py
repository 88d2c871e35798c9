"""The servers of a benchmark on one machine: an installation with cards, a client inside it, the rivals."""

from __future__ import annotations

import secrets
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from loadtests.generators.http import Api
from loadtests.generators.journals import fill
from loadtests.generators.rest import issue_cards, issue_delegated_cards
from loadtests.generators.wire import Address
from loadtests.generators.workload import CONTROLS, FUNDS, SALE, Card
from loadtests.harness.checkout import Checkout
from loadtests.harness.children import Helper, Installation
from loadtests.harness.earlier import EarlierServers
from loadtests.harness.front import address_of, dsn_of, labels_of, ray_address, signed_in
from loadtests.harness.metrics import scrape
from loadtests.harness.processes import command_line, tree
from loadtests.harness.rivals import RivalProcesses, start_rivals
from loadtests.harness.systems import OURS, System

TIGHT_BUDGET = "1000.00"
"""A thousand spends exhaust it; every later stand-in declines at the ceiling."""


class ServerPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The servers to start, and their sizes."""

    cards: int = 1000
    stand_in_cards: int = 0
    """Further cards in each of two programmes that decide by themselves: one with an ample budget, one with
    ``TIGHT_BUDGET``."""
    capped_cards: int = 0
    """Further cards with velocity caps."""
    capped_sales: int = 0
    """Sales in the history of the capped cards, in all."""
    rivals: tuple[str, ...] = ()
    """Names from ``loadtests.harness.systems.RIVALS``."""
    rival_processes: int = 2
    """Processes of each rival."""
    rival_connections: int = 16
    """Database connections of one rival, over all its processes; where calls are batched or pipelined, a few
    do (``loadtests.harness.rivals``)."""
    relived_decisions: int = 0
    """Decisions in the history of further cards, for back-tests."""
    far_ms: float = 0.0
    """Delay added to every round trip to the database, in milliseconds; 0 = none."""


class BenchServers:
    """An async context manager: it starts all servers and stops them on exit."""

    def __init__(
        self,
        folder: Path,
        plan: ServerPlan,
        environment: dict[str, str] | None = None,
        checkout: Checkout | None = None,
    ) -> None:
        """``environment``: further variables of the installation; ``checkout``: an earlier commit, whose
        installation starts beside it."""
        self._folder = folder
        self._checkout = checkout
        self.plan = plan
        self._stack = AsyncExitStack()
        # Ray refuses clients without its token. The installation and the client inside it share this one.
        self._ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        # The API refuses decision endpoints on this machine unless the installation allows them.
        self._settings = {"STANCHION_EGRESS_ALLOW": "127.0.0.1/32"} | dict(environment or {})
        self.installation = Installation(folder / "var", self._ray | self._settings)
        self.run: dict[str, Any] = {}
        self.api: Api
        self.inside: Helper
        self.meter: Helper
        self.earlier: EarlierServers | None = None
        self.rivals: dict[str, RivalProcesses] = {}
        self.cards: list[Card] = []
        self.capped_ids: list[str] = []
        self.ample_ids: list[str] = []
        self.tight_ids: list[str] = []
        self.relived_programme = ""
        """The programme of the cards with histories for back-tests."""
        self.ours: System
        self.start_seconds = 0.0
        """Time from the start command until the installation served."""
        self._database_root: int | None = None

    @property
    def var_dir(self) -> Path:
        """The folder of the installation."""
        return self._folder / "var"

    @property
    def edge(self) -> Address:
        """Where Stanchion speaks ISO 8583."""
        return address_of(self.run)

    @property
    def card_ids(self) -> list[str]:
        return [card.card_id for card in self.cards]

    @property
    def every_id(self) -> list[str]:
        """The cards of all programmes."""
        return [*self.card_ids, *self.capped_ids, *self.ample_ids, *self.tight_ids]

    @property
    def systems(self) -> list[System]:
        """All systems, Stanchion first."""
        earlier = [] if self.earlier is None else [self.earlier.system]
        rivals = [system for rival in self.rivals.values() for system in rival.systems]
        return [self.ours, *earlier, *rivals]

    async def __aenter__(self) -> Self:
        try:
            await self._set_up()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_exception: object) -> None:
        await self._stack.aclose()

    async def _set_up(self) -> None:
        errors = self._stack.enter_context((self._folder / "helpers.log").open("ab"))
        if self.plan.far_ms:
            await self._set_database_apart(errors)
        self._stack.push_async_callback(self.installation.stop)
        began = time.monotonic()
        self.run = await self.installation.start()
        self.start_seconds = time.monotonic() - began
        self.api = await signed_in(self.run, self._stack)
        card_ids = await issue_cards(self.api, self.plan.cards)
        if self.plan.stand_in_cards:
            self.ample_ids = await issue_delegated_cards(self.api, self.plan.stand_in_cards, FUNDS)
            self.tight_ids = await issue_delegated_cards(self.api, self.plan.stand_in_cards, TIGHT_BUDGET)
        where = (str(self.var_dir), ray_address(self.installation.pid))
        self.inside = await self.helper(errors, "ops.bench.inside", *where)
        self.cards = msgspec.convert(await self.inside.ask("cards", card_ids=card_ids), list[Card])
        if self.plan.capped_cards:
            self.capped_ids = await issue_cards(self.api, self.plan.capped_cards, CONTROLS)
            past = {"cards": self.capped_ids, "sale": SALE, "sales": self.plan.capped_sales}
            await self.inside.ask("make_history", **past)
        if self.plan.relived_decisions:
            self.relived_programme = await fill(
                dsn_of(self.var_dir), card_ids[0], self.plan.relived_decisions
            )
        self.meter = await self.helper(errors, "ops.bench.meter", str(self.var_dir))
        self.rivals = await start_rivals(self, errors)
        await self._describe()
        if self._checkout is not None:
            await self._start_earlier(self._checkout, errors)

    async def _set_database_apart(self, errors: IO[bytes]) -> None:
        """Start a separate PostgreSQL behind a delaying proxy; all systems use it."""
        far = await self.helper(errors, "ops.bench.far", str(self._folder), str(self.plan.far_ms))
        self._settings["STANCHION_DATABASE_URL"] = await far.ask("open")
        self.installation = Installation(self.var_dir, self._ray | self._settings)
        self._database_root = far.pid

    async def _start_earlier(self, checkout: Checkout, errors: IO[bytes]) -> None:
        folder = self._folder / "earlier"
        folder.mkdir()
        earlier = EarlierServers(folder, checkout, self._ray)
        await earlier.start(self._stack, self.plan.cards, errors)
        self.earlier = earlier

    async def helper(
        self, errors: IO[bytes], module: str, *arguments: str, environment: dict[str, str] | None = None
    ) -> Helper:
        """Start a helper process that ends with these servers; its standard error goes to ``errors``."""
        helper = Helper(self._ray | self._settings | (environment or {}), module, *arguments)
        self._stack.push_async_callback(helper.stop)
        await helper.start(errors)
        return helper

    async def _describe(self) -> None:
        """Name the processes of the installation."""
        url = self.run["metrics_url"]
        labels = labels_of((await scrape(url)).processes, self.installation.pid)
        roots = {self.installation.pid, *([self.postmaster] if self.plan.far_ms else [])}
        self.ours = System(OURS, tuple(roots), labels, self.equipment, url, self.meter, "")

    @property
    def equipment(self) -> tuple[int, ...]:
        """The delaying proxy, if there is one."""
        return () if self._database_root is None else (self._database_root,)

    @property
    def postmaster(self) -> int:
        """Process id of PostgreSQL's postmaster, the parent of its backends."""
        members = tree(self._database_root or self.installation.pid)
        backends = {each.parent for each in members if command_line(each.pid).startswith("postgres: ")}
        return backends.pop()
