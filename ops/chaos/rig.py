"""The test rig of ``make chaos``: ``stanchion up`` on its own PostgreSQL and Redis, behind proxies that can
disturb the network, and the users that load it."""

from __future__ import annotations

import asyncio
import json
import random
import time
import urllib.request
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode, urlsplit, urlunsplit

import asyncpg

from actors.settings import Settings
from actors.vault import Vault
from engine.ids import shard_of
from ops.chaos.environment.base import Environment
from ops.chaos.environment.clocks import MovedClocks
from ops.chaos.environment.disk import DiskVolume
from ops.chaos.environment.processes import descendants, gone, pids_by_role
from ops.chaos.environment.proxy import Proxy
from ops.chaos.errors import NotInjectedError
from ops.chaos.traffic.canaries import Canaries, master_key
from ops.chaos.traffic.card_lives import CardLife
from ops.chaos.traffic.delegated_programme import (
    BUDGET,
    FLAPPING_BUDGET,
    FLAPPING_MAX,
    SPEND_MAX,
    DelegatedProgramme,
)
from ops.chaos.traffic.idempotent_callers import Account, IdempotentCallers
from ops.chaos.traffic.issuing import new_cards, new_product, plastics
from ops.chaos.traffic.shoppers import Crowd, Plastic, Terminal
from ops.chaos.traffic.webhook_receiver import WebhookReceiver
from ops.database.clients import create_client
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.histories.operations import Operation
from ops.supervision.running_installation import RunningError, RunningInstallation
from stanchion import AsyncClient, Client

RECOVERY_SECONDS_MAX: Final = 30.0
START_ATTEMPTS: Final = 3
FUNDS: Final = "5000000.00"
FURTHER_CARDS: Final = 6
"""Cards of each further programme: one with a flapping endpoint, one with a small budget, one in gateway
mode."""
ROLES: Final = frozenset(
    {"coordinator", "coordinator-2", "edge", "network", "relay", "dispatcher-0", "api-0"}
)
HOSTS: Final = 2


class Rig(Environment):
    """An async context manager. Enter it in the thread in which ``postgres`` and ``redis`` shall live: they
    end with it."""

    def __init__(self, folder: Path, cards: int, seed: int) -> None:
        super().__init__()
        self.folder = folder
        self.var_dir = folder / "var"
        self._cards = cards
        self._seed = seed
        self.dice = random.Random(seed)
        self.disk = DiskVolume(folder / "servers")
        self.clocks = MovedClocks(folder / "clocks")
        self.postgres = EmbeddedPostgres(folder / "servers")
        self.redis = EmbeddedRedis(folder / "servers")
        self.to_postgres: Proxy
        self.to_redis: Proxy
        self.installation: RunningInstallation
        self.record: dict[str, Any] = {}
        self._managed = ""
        self.crowd: Crowd
        """Shoppers of a programme that the platform decides for; the faults' figures come from them."""
        self.further_crowd: Crowd
        """Shoppers of the other programmes."""
        self.callers: IdempotentCallers
        self.transfer_account: Account
        """A card that is used for transfers only."""
        self.flapping = DelegatedProgramme("Flapping", FLAPPING_BUDGET, FLAPPING_MAX)
        self.budgeted = DelegatedProgramme("Budgeted", BUDGET, SPEND_MAX)
        self.budgeted_terminals: list[Terminal] = []
        self.receiver = WebhookReceiver()
        self.canaries = Canaries()
        self.card_life: CardLife
        """A cardholder with operations that shoppers never send."""
        self._background: list[asyncio.Task[None]] = []

    async def _set_up(self) -> None:
        self.disk.mount()
        self._stack.callback(self.disk.unmount)
        for server in (self.postgres, self.redis):
            server.start()
            self._stack.callback(server.stop)
        self.to_postgres = await self._stack.enter_async_context(Proxy(self.postgres.port))
        self.to_redis = await self._stack.enter_async_context(Proxy(self.redis.port))
        settings = {
            "STANCHION_DATABASE_URL": _through(self.to_postgres, self.postgres.url),
            "STANCHION_REDIS_URL": _through(self.to_redis, self.redis.url),
            # Shoppers send their presentments themselves.
            "STANCHION_AUTO_CLEAR_SECONDS": "0",
            "STANCHION_ENABLE_GATEWAY": "1",
            # One host that serves beside a reserve, or two that serve.
            "STANCHION_RESERVE_HOSTS": str(self.dice.choice((0, 1))),
        }
        self.installation = RunningInstallation(self.var_dir, settings | self.clocks.environment())
        self._stack.push_async_callback(asyncio.to_thread, self.installation.stop)
        self.record = await self._start()
        await self._create_users()
        await self.recovered()

    async def _start(self) -> dict[str, Any]:
        """Start the installation; returns ``run.json``. On a busy machine a start may time out, so it is
        retried."""
        for _ in range(START_ATTEMPTS - 1):
            with suppress(RunningError):
                return await asyncio.to_thread(self.installation.start)
        return await asyncio.to_thread(self.installation.start)

    async def _create_users(self) -> None:
        """Create all users of the installation; none of them sends anything yet."""
        self._stack.push_async_callback(self.receiver.close)
        await self.receiver.open(self.var_dir, self.client())
        for programme in (self.flapping, self.budgeted):
            self._stack.push_async_callback(programme.close)
        flapping = await self.flapping.open(self.var_dir, self.client(), FURTHER_CARDS)
        budgeted = await self.budgeted.open(self.var_dir, self.client(), FURTHER_CARDS)
        managed, gateway, mine, theirs = await asyncio.to_thread(self._issue)
        self.callers = IdempotentCallers(self.record["base_url"], mine, theirs, self._seed)
        self._stack.push_async_callback(self.callers.close)
        await self.callers.open()
        await self._set_up_canaries(mine, theirs)
        self.card_life = await self._new_card_life()
        self._stack.push_async_callback(self.card_life.close)
        address = (self.record["iso8583"]["host"], self.record["iso8583"]["port"])
        async with self.connection() as connection:
            cards = await plastics(connection, self.var_dir, [*managed, *flapping, *gateway, *budgeted])
        rest = cards[len(managed) :]
        self.crowd = Crowd(address, cards[: len(managed)], self._seed)
        self.further_crowd = Crowd(address, rest, self._seed + 1000)
        self.budgeted_terminals = self.further_crowd.terminals[-FURTHER_CARDS:]
        for crowd in (self.crowd, self.further_crowd):
            self._stack.push_async_callback(crowd.close)
            await crowd.open()

    async def _set_up_canaries(self, mine: Account, theirs: Account) -> None:
        """Set up the canaries and register every secret to search for."""
        self._stack.push_async_callback(self.canaries.close)
        canary = await asyncio.to_thread(self._canary, mine.programme_id)
        await self.canaries.open(self.record, mine.token, mine.programme_id, canary)
        self.canaries.add_secret("the master key", master_key(self.var_dir))
        self.canaries.add_secret("a webhook's secret", self.receiver.secret)
        self.canaries.add_secret("the database's password", self.postgres.password)
        self.canaries.add_secret("Redis's password", self.redis.password)
        for number, account in enumerate((mine, theirs), start=1):
            self.canaries.add_secret(f"access token {number}", account.token)
        for number, programme in enumerate((self.flapping, self.budgeted), start=1):
            self.canaries.add_secret(f"decision secret {number}", programme.secret)
        for number, client in enumerate(self.record["tenants"], start=1):
            self.canaries.add_secret(f"client secret {number}", client["client_secret"])

    def _canary(self, programme_id: str) -> str:
        with self.client() as api:
            return new_cards(api, programme_id, 1, funds=FUNDS)[0]

    async def _new_card_life(self) -> CardLife:
        owner = self.tenants()[0]
        async with self.connection() as connection:
            revealing = await create_client(
                connection,
                Vault.from_settings(Settings.load(var_dir=self.var_dir)),
                tenant=owner["name"],
                mode="test",
                role="user",
                operator="chaos",
                scopes=("cards:reveal",),
            )
        card_id = await asyncio.to_thread(self._canary, self._managed)
        base_url = self.record["base_url"]
        return CardLife(
            AsyncClient(base_url, owner["client_id"], owner["client_secret"]),
            AsyncClient(base_url, revealing.client_id, revealing.client_secret),
            card_id,
            partial(self.canaries.add_secret, "a page's token"),
        )

    def _issue(self) -> tuple[list[str], list[str], Account, Account]:
        """Issue cards of a managed and of a gateway programme, and create the accounts of two tenants with
        idempotent callers."""
        accounts = []
        for number in range(2):
            with self.client(number) as api:
                programme = api.programs.create(name="Keys", currency="EUR")["id"]
                card, spare = new_cards(api, programme, 2)
                accounts.append(Account(self._token(number), programme, new_product(api, programme), card))
                self.transfer_account = replace(accounts[-1], card_id=spare)
        with self.client() as api:
            managed = self._managed = api.programs.create(name="Chaos", currency="EUR")["id"]
            gateway = api.programs.create(name="Own ledger", currency="EUR", mode="gateway")["id"]
            return (
                new_cards(api, managed, self._cards, funds=FUNDS),
                new_cards(api, gateway, FURTHER_CARDS),
                accounts[0],
                accounts[1],
            )

    async def more_plastics(self, count: int) -> list[Plastic]:
        """New funded cards of the managed programme that no shopper uses."""

        def issue() -> list[str]:
            with self.client() as api:
                return new_cards(api, self._managed, count, funds=FUNDS)

        card_ids = await asyncio.to_thread(issue)
        async with self.connection() as connection:
            return await plastics(connection, self.var_dir, card_ids)

    def _token(self, tenant: int) -> str:
        """An access token, valid for the whole run."""
        owner = self.tenants()[tenant]
        form = {
            "grant_type": "client_credentials",
            "client_id": owner["client_id"],
            "client_secret": owner["client_secret"],
        }
        address = f"{self.record['base_url']}/v1/oauth/token"
        with urllib.request.urlopen(address, urlencode(form).encode(), timeout=30) as answer:
            return str(json.loads(answer.read())["access_token"])

    # --- users ----------------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """Start all users; they run until ``end``."""
        await self.crowd.begin()
        await self.further_crowd.begin(self.further_crowd.terminals[:-FURTHER_CARDS])
        await self.callers.begin()
        await self.canaries.run_once()
        await self.card_life.run_once()
        work = (
            self.flapping.flap(random.Random(self._seed)),
            self.canaries.run_forever(),
            self.card_life.run_forever(),
        )
        self._background = [asyncio.create_task(each) for each in work]

    async def end(self) -> None:
        """Stop all users; open operations stay unknown."""
        for task in self._background:
            task.cancel()
        for failure in await asyncio.gather(*self._background, return_exceptions=True):
            if isinstance(failure, Exception):
                raise failure
        for each in (self.callers, self.further_crowd, self.crowd):
            await each.end()
        # One outage stays open, so that the audit also covers that case.
        self.flapping.behave("down")
        for terminal in self.further_crowd.terminals[:FURTHER_CARDS]:
            await terminal.purchase()

    @property
    def operations(self) -> list[Operation]:
        """The operations of all shoppers."""
        return [*self.crowd.history.operations, *self.further_crowd.history.operations]

    # --- processes ------------------------------------------------------------------------------------------

    def tenants(self) -> list[dict[str, Any]]:
        """The admin clients of test-mode tenants."""
        return [each for each in self.record["tenants"] if (each["mode"], each["role"]) == ("test", "admin")]

    def client(self, tenant: int = 0) -> Client:
        """A client with the admin credentials of a test-mode tenant."""
        owner = self.tenants()[tenant]
        return Client(self.record["base_url"], owner["client_id"], owner["client_secret"])

    async def processes(self) -> dict[str, int]:
        """Process ids of the serving roles; empty while the metrics page does not answer."""
        try:
            return await asyncio.to_thread(pids_by_role, self.record["metrics_url"])
        except OSError:
            return {}

    async def hosts(self) -> dict[str, int]:
        """Process ids of the shard hosts, reserves included."""
        found = await self.processes()
        return {name: pid for name, pid in found.items() if name.startswith("host-")}

    async def serving_host(self) -> tuple[str, int]:
        """A host that owns shards, at random, with its process id. Raises NotInjectedError if no other host
        lives that could take them over."""
        hosts = await self.hosts()
        rows = await self.fetch("SELECT DISTINCT host FROM shards WHERE host IS NOT NULL")
        serving = sorted({row["host"] for row in rows} & hosts.keys())
        if len(hosts) < HOSTS or not serving:
            raise NotInjectedError("there are fewer than two hosts")
        name = self.dice.choice(serving)
        return name, hosts[name]

    async def pid_of(self, role: str) -> int:
        """The process id of a role. Raises NotInjectedError when it does not serve."""
        pid = (await self.processes()).get(role)
        if pid is None:
            raise NotInjectedError(f"no process serves as {role}")
        return pid

    def server_pids(self, server: EmbeddedPostgres | EmbeddedRedis) -> list[int]:
        """A server and its children."""
        if server.pid is None:
            raise NotInjectedError("the server is not running")
        return descendants(server.pid)

    def all_pids(self) -> list[int]:
        """Every process of the installation and of its servers."""
        roots = [self.installation.pid, self.postgres.pid, self.redis.pid]
        return [pid for root in roots if root is not None for pid in descendants(root)]

    async def ready(self) -> bool:
        """Whether ``/readyz`` reports all parts as ready."""
        return await asyncio.to_thread(_responds, self.record["metrics_url"].replace("/metrics", "/readyz"))

    async def unready(self) -> bool:
        """Whether ``/readyz`` reports a part that is not ready."""
        return not await self.ready()

    async def wait_unready(self) -> None:
        """Return when ``/readyz`` has reported a part that is not ready."""
        while True:
            if await self.unready():
                return
            await asyncio.sleep(0.05)

    async def complete(self) -> bool:
        """Whether every role serves and all hosts exist."""
        if not await self.ready():
            return False
        found = (await self.processes()).keys()
        return found >= ROLES and sum(name.startswith("host-") for name in found) == HOSTS

    async def recovered(self) -> float:
        """Wait until the installation is complete and answers spends; returns the seconds that it took."""
        began = time.monotonic()
        await self.until(self.complete, "the installation is complete")
        for terminal in self.terminals_of(range(256))[:4]:
            await self.until(partial(_answered, terminal), "a spend is answered")
        return time.monotonic() - began

    async def until(
        self, condition: Callable[[], Any], what: str, seconds_max: float = RECOVERY_SECONDS_MAX
    ) -> None:
        """Wait for ``condition``. Raises TimeoutError."""
        deadline = time.monotonic() + seconds_max
        while True:
            held = condition()
            if await held if asyncio.iscoroutine(held) else held:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out waiting until {what}")
            await asyncio.sleep(0.05)

    async def ended(self, pid: int, seconds_max: float) -> float:
        """Wait until a process has ended; returns the seconds that it took."""
        began = time.monotonic()
        await self.until(lambda: gone(pid), f"process {pid} has ended", seconds_max)
        return time.monotonic() - began

    # --- shoppers -------------------------------------------------------------------------------------------

    def terminals_of(self, shards: Iterable[int]) -> list[Terminal]:
        """The terminals whose cards are on ``shards``."""
        wanted = set(shards)
        return [terminal for terminal in self.crowd.terminals if shard_of(terminal.plastic.card_id) in wanted]

    async def shards_of(self, host: str) -> list[int]:
        """The shards that a host owns."""
        rows = await self.fetch("SELECT shard FROM shards WHERE host = $1", host)
        return [row["shard"] for row in rows]

    async def spend_at_once(self, terminals: Iterable[Terminal]) -> list[Operation]:
        """Begin one new purchase at each terminal at the same time; returns when all are answered."""
        return await asyncio.gather(*(terminal.purchase() for terminal in terminals))

    async def fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        """Rows of the database, past the proxy."""
        async with self.connection() as connection:
            return await connection.fetch(sql, *arguments)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
        """A connection to the database, past the proxy."""
        connection = await asyncpg.connect(self.postgres.url, timeout=10)
        try:
            yield connection
        finally:
            await connection.close(timeout=10)


async def _answered(terminal: Terminal) -> bool:
    """Whether a new purchase is answered. A new one each time: a purchase that the edge has reversed as late
    stays 91."""
    return (await terminal.purchase()).outcome == "ok"


def _through(proxy: Proxy, url: str) -> str:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{proxy.port}"))


def _responds(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
