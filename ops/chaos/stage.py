"""Where chaos happens: ``stanchion up`` on servers of ours, a bad network in between, a crowd of shoppers."""

from __future__ import annotations

import asyncio
import random
import time
import urllib.request
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from actors.network.custody import CardCustody
from actors.settings import Settings
from actors.vault import Vault
from engine.ids import shard_of
from ops.chaos.processes import descendants, gone, named
from ops.chaos.proxy import Proxy
from ops.chaos.receiver import Receiver
from ops.chaos.shoppers import Crowd, Plastic, Till
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from ops.histories.operations import Operation
from ops.running import RunningInstallation
from stanchion import Client

BACK_SECONDS_MAX: Final = 30.0
LOADED_MINOR: Final = "5000000.00"
ROLES: Final = frozenset({"coordinator", "edge", "network", "relay", "dispatcher-0", "api-0"})
HOSTS: Final = 2


class NotInjectedError(Exception):
    """The fault did not happen, so nothing has been shown."""


class Stage:
    """An async context manager. ``postgres`` and ``redis`` are started in the thread that enters it."""

    def __init__(self, folder: Path, cards: int, seed: int) -> None:
        self._folder = folder
        self._cards = cards
        self._seed = seed
        self.dice = random.Random(seed)
        self._stack = AsyncExitStack()
        self.postgres = EmbeddedPostgres(folder / "servers")
        self.redis = EmbeddedRedis(folder / "servers")
        self.to_postgres: Proxy
        self.to_redis: Proxy
        self.installation: RunningInstallation
        self.record: dict[str, Any] = {}
        self.crowd: Crowd
        self.receiver = Receiver()

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
        for server in (self.postgres, self.redis):
            server.start()
            self._stack.callback(server.stop)
        self.to_postgres = await self._stack.enter_async_context(Proxy(self.postgres.port))
        self.to_redis = await self._stack.enter_async_context(Proxy(self.redis.port))
        settings = {
            "STANCHION_DATABASE_URL": _through(self.to_postgres, self.postgres.url),
            "STANCHION_REDIS_URL": _through(self.to_redis, self.redis.url),
            # Shoppers present their sales themselves.
            "STANCHION_AUTO_CLEAR_SECONDS": "0",
        }
        self.installation = RunningInstallation(self._folder / "var", settings)
        self._stack.push_async_callback(asyncio.to_thread, self.installation.stop)
        self.record = await asyncio.to_thread(self.installation.start)
        self._stack.push_async_callback(self.receiver.close)
        await self.receiver.open(self._folder / "var", self.client())
        card_ids = await asyncio.to_thread(self._issue)
        address = (self.record["iso8583"]["host"], self.record["iso8583"]["port"])
        self.crowd = Crowd(address, await self._plastics(card_ids), self._seed)
        self._stack.push_async_callback(self.crowd.close)
        await self.crowd.open()
        await self.back()

    # --- what runs ----------------------------------------------------------------------------------------

    def client(self) -> Client:
        """The administrator of a test-mode tenant."""
        owner = next(
            each for each in self.record["tenants"] if (each["mode"], each["role"]) == ("test", "admin")
        )
        return Client(self.record["base_url"], owner["client_id"], owner["client_secret"])

    async def processes(self) -> dict[str, int]:
        """Process ids by role, of those that serve; empty when nobody says."""
        try:
            return await asyncio.to_thread(named, self.record["metrics_url"])
        except OSError:
            return {}

    async def hosts(self) -> dict[str, int]:
        """Process ids of the shard hosts."""
        found = await self.processes()
        return {name: pid for name, pid in found.items() if name.startswith("host-")}

    async def pid_of(self, role: str) -> int:
        """The process of a role. Raises NotInjectedError when it has none."""
        pid = (await self.processes()).get(role)
        if pid is None:
            raise NotInjectedError(f"there is no process {role}")
        return pid

    def server_pids(self, server: EmbeddedPostgres | EmbeddedRedis) -> list[int]:
        """A server and its children."""
        if server.pid is None:
            raise NotInjectedError("the server does not run")
        return descendants(server.pid)

    async def whole(self) -> bool:
        """Whether every role serves and all hosts are there."""
        ready = self.record["metrics_url"].replace("/metrics", "/readyz")
        if not await asyncio.to_thread(_answers, ready):
            return False
        found = (await self.processes()).keys()
        return found >= ROLES and sum(name.startswith("host-") for name in found) == HOSTS

    async def back(self) -> float:
        """Wait until the installation is whole again and answers everyone; how long that took."""
        began = time.monotonic()
        await self.until(self.whole, "the installation is whole")
        for till in self.tills_of(range(256))[:4]:
            operation = await till.buy()
            if operation.outcome != "ok":
                raise TimeoutError("a spend got no answer although everything is whole")
        return time.monotonic() - began

    async def until(
        self, condition: Callable[[], Any], what: str, seconds_max: float = BACK_SECONDS_MAX
    ) -> None:
        """Wait for ``condition``. Raises TimeoutError."""
        deadline = time.monotonic() + seconds_max
        while True:
            held = condition()
            if await held if asyncio.iscoroutine(held) else held:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"never: {what}")
            await asyncio.sleep(0.05)

    async def ended(self, pid: int, seconds_max: float) -> float:
        """Wait until a process has ended; how long that took."""
        began = time.monotonic()
        await self.until(lambda: gone(pid), f"process {pid} has ended", seconds_max)
        return time.monotonic() - began

    # --- what shoppers see --------------------------------------------------------------------------------

    def tills_of(self, shards: Iterable[int]) -> list[Till]:
        """The shoppers whose cards are on ``shards``."""
        wanted = set(shards)
        return [till for till in self.crowd.tills if shard_of(till.plastic.card_id) in wanted]

    async def shards_of(self, host: str) -> list[int]:
        """What a host owns."""
        rows = await self.fetch("SELECT shard FROM shards WHERE host = $1", host)
        return [row["shard"] for row in rows]

    async def spend_at_once(self, tills: Iterable[Till]) -> list[Operation]:
        """One new spend on each card, all begun now, asked until answered."""
        return await asyncio.gather(*(till.buy() for till in tills))

    async def fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        """Rows of the database, past the bad network."""
        connection = await asyncpg.connect(self.postgres.url, timeout=10)
        try:
            return await connection.fetch(sql, *arguments)
        finally:
            await connection.close(timeout=10)

    # --- cards --------------------------------------------------------------------------------------------

    def _issue(self) -> list[str]:
        with self.client() as api:
            programme = api.programs.create(name="Chaos", currency="EUR")
            product = api.card_products.create(
                programme_id=programme["id"],
                name="Chaos",
                network="visa",
                currency="EUR",
                form_factor="virtual",
                iin="45600000",
            )
            holder = api.cardholders.create(
                programme_id=programme["id"], given_name="Ada", family_name="Byron", email="ada@example.com"
            )
            cards = []
            for _ in range(self._cards):
                card = api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
                api.cards.load(card["id"], {"amount": LOADED_MINOR, "currency": "EUR"})
                cards.append(card["id"])
            return cards

    async def _plastics(self, card_ids: list[str]) -> list[Plastic]:
        custody = CardCustody(Vault.from_settings(Settings.load(var_dir=self._folder / "var")))
        rows = await self.fetch(
            "SELECT p.card_id::text, p.sealed, c.exp_year, c.exp_month"
            " FROM pans p JOIN cards c ON c.id = p.card_id WHERE p.card_id = ANY($1::text[]::uuid[])",
            card_ids,
        )
        return [
            Plastic(
                row["card_id"],
                "".join(custody.open(row["card_id"], row["sealed"])),
                f"{row['exp_year'] % 100:02d}{row['exp_month']:02d}",
            )
            for row in rows
        ]


def _through(proxy: Proxy, url: str) -> str:
    parts = urlsplit(url)
    user = parts.netloc.rpartition("@")[0]
    return urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{proxy.port}"))


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False
