"""Everything a benchmark needs on one machine: an installation with cards, a client inside it, the rival."""

from __future__ import annotations

import secrets
from contextlib import AsyncExitStack
from pathlib import Path
from typing import IO, Any, Self

import msgspec

from loadtests.children import ChildError, Helper, Installation
from loadtests.http import Api
from loadtests.metrics import scrape
from loadtests.processes import command_line, tree
from loadtests.rest import issue_cards, issue_delegated_cards
from loadtests.slices import OURS, RIVAL, System
from loadtests.wire import Address
from loadtests.workload import FUNDS, Card

SETUP_CONNECTIONS = 16
TIGHT_BUDGET = "1000.00"
"""Used up by a thousand spends: then every stand-in is refused at the ceiling."""
_GCS_ADDRESS = "--gcs-address="


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """How large everything is."""

    cards: int = 1000
    stand_in_cards: int = 0
    """Further cards in each of two programmes that decide by themselves: one with an ample budget, one with
    ``TIGHT_BUDGET``."""
    rival_processes: int = 2
    """None at all for a benchmark without a rival."""
    rival_connections: int = 16
    """Database connections of the rival, over all its processes."""


class Stage:
    """An async context manager: everything is up inside it and gone after it."""

    def __init__(self, folder: Path, plan: Plan, environment: dict[str, str] | None = None) -> None:
        """``environment``: further variables of the installation."""
        self._folder = folder
        self._plan = plan
        self._stack = AsyncExitStack()
        # Ray lets nobody in without its token. A token of our own making is known to the installation and to
        # our client inside it, and to nobody else.
        self._ray = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.installation = Installation(folder / "var", self._ray | (environment or {}))
        self.run: dict[str, Any] = {}
        self.api: Api
        self.inside: Helper
        self.rivals: list[Helper] = []
        self.rival_addresses: list[Address] = []
        self.cards: list[Card] = []
        self.ample_ids: list[str] = []
        self.tight_ids: list[str] = []
        self.ours: System
        self.rival: System

    @property
    def edge(self) -> Address:
        """Where Stanchion speaks ISO 8583."""
        return self.run["iso8583"]["host"], self.run["iso8583"]["port"]

    @property
    def card_ids(self) -> list[str]:
        return [card.card_id for card in self.cards]

    @property
    def every_id(self) -> list[str]:
        """The cards of all programmes."""
        return [*self.card_ids, *self.ample_ids, *self.tight_ids]

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
        self._stack.push_async_callback(self.installation.stop)
        self.run = await self.installation.start()
        errors = self._stack.enter_context((self._folder / "helpers.log").open("ab"))
        var = str(self._folder / "var")
        await self._sign_in()
        card_ids = await issue_cards(self.api, self._plan.cards)
        if self._plan.stand_in_cards:
            self.ample_ids = await issue_delegated_cards(self.api, self._plan.stand_in_cards, FUNDS)
            self.tight_ids = await issue_delegated_cards(self.api, self._plan.stand_in_cards, TIGHT_BUDGET)
        self.inside = await self.helper(errors, "ops.bench.inside", var, ray_address(self.installation.pid))
        self.cards = msgspec.convert(await self.inside.ask("cards", card_ids=card_ids), list[Card])
        if self._plan.rival_processes:
            await self._start_rival(errors, var)
        await self._describe_systems()

    async def _start_rival(self, errors: IO[bytes], var: str) -> None:
        await self.inside.ask("make_rival_database")
        share = str(max(1, self._plan.rival_connections // self._plan.rival_processes))
        for _ in range(self._plan.rival_processes):
            rival = await self.helper(errors, "ops.bench.rival", var, share)
            self.rivals.append(rival)
            host, port = await rival.ask("open")
            self.rival_addresses.append((host, port))

    async def _sign_in(self) -> None:
        client = next(
            each for each in self.run["tenants"] if (each["mode"], each["role"]) == ("test", "admin")
        )
        self.api = Api(self.run["base_url"], SETUP_CONNECTIONS)
        await self.api.open(client)
        self._stack.push_async_callback(self.api.close)

    async def helper(self, errors: IO[bytes], module: str, *arguments: str) -> Helper:
        """Start a helper process that ends with the stage; its complaints go to ``errors``."""
        helper = Helper(self._ray, module, *arguments)
        self._stack.push_async_callback(helper.stop)
        await helper.start(errors)
        return helper

    async def _describe_systems(self) -> None:
        url = self.run["metrics_url"]
        names = [name for name in (await scrape(url)).processes if name]
        pids: dict[str, int] = await self.inside.ask("pids", names=names)
        labels = {pid: "hosts" if name.startswith("host-") else name for name, pid in pids.items()}
        labels[self.installation.pid] = "supervisor"
        self.ours = System(OURS, (self.installation.pid,), labels, url)
        rivals = {helper.pid: "rival" for helper in self.rivals}
        self.rival = System(RIVAL, (*rivals, self._postmaster()), rivals)

    def _postmaster(self) -> int:
        """The one server process of PostgreSQL whose children are its backends."""
        members = tree(self.installation.pid)
        backends = {each.parent for each in members if command_line(each.pid).startswith("postgres: ")}
        return backends.pop()


def ray_address(supervisor: int) -> str:
    """The address of the Ray that the installation with this process id has started for itself, as its
    processes were told it. Raises ChildError."""
    for process in tree(supervisor):
        _, found, rest = command_line(process.pid).partition(_GCS_ADDRESS)
        if found:
            return rest.split()[0]
    raise ChildError("the installation has no Ray of its own")
