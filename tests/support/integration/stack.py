"""A running installation as its operator sees it: processes, metrics pages, database, keys."""

from __future__ import annotations

import asyncio
import re
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import asyncpg
import httpx2

from actors.network.card_secrets import CardSecrets
from actors.settings import Settings
from actors.vault import Vault
from ops.audit import audit
from ops.database.clients import ClientCredentials
from ops.supervision.installation import database
from ops.supervision.running_installation import RunningInstallation
from tests.support.api.driver import Caller
from tests.support.ops.waiting import gone

SECONDS_MAX = 240.0
OUTPUT_LINES = 60
"""Lines of output that a failed test shows."""
LISTENING = "0A"
"""The state LISTEN in /proc/net/tcp."""
_SERVING = re.compile(r'^stanchion_process_serving\{process="([^"]+)"\} 1\.0$', re.MULTILINE)
_PROCESS = re.compile(r'^stanchion_process_id\{process="([^"]+)"\} (\S+)$', re.MULTILINE)


def _table(name: str) -> list[str]:
    return Path(f"/proc/net/{name}").read_text().splitlines()[1:]


def _address(local: str) -> str:
    """The address in a line of ``/proc/net/tcp``: 4-byte words in the machine's byte order."""
    words = bytes.fromhex(local.partition(":")[0])
    raw = b"".join(words[at : at + 4][::-1] for at in range(0, len(words), 4))
    address = ip_address(raw)
    return str(getattr(address, "ipv4_mapped", None) or address)


async def until(condition: Callable[[], bool], what: str) -> None:
    """Return as soon as ``condition`` holds; fail the test after ``SECONDS_MAX``."""
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"timed out: {what}"
        await asyncio.sleep(0.05)


@dataclass
class Stack:
    """The installation that all tests of the package share. A test may stop and start it."""

    installation: RunningInstallation
    record: dict[str, Any] = field(default_factory=dict)
    tokens: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        """Start it on new free ports."""
        self.record = self.installation.start()

    def stop(self) -> None:
        """Stop it as Ctrl-C would."""
        self.installation.stop()

    # --- processes and metrics pages ----------------------------------------------------------------------

    def page(self, path: str) -> tuple[int, str]:
        """Status and text of a page of the metrics port. Fails with the end of the output when the supervisor
        has ended."""
        if self.installation.pid is None:
            lines = self.installation.output.read_text("utf-8", "replace").splitlines()
            raise AssertionError("\n".join(["the supervisor has ended:", *lines[-OUTPUT_LINES:]]))
        try:
            with urllib.request.urlopen(self.record["metrics_url"].replace("/metrics", path)) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, refusal.read().decode()

    def processes(self) -> dict[str, int]:
        """Process ids of the serving processes, by role."""
        page = self.page("/metrics")[1]
        serving = set(_SERVING.findall(page))
        return {name: int(float(pid)) for name, pid in _PROCESS.findall(page) if name in serving}

    def hosts(self) -> dict[str, int]:
        """Process ids of the shard hosts that own shards."""
        return {name: pid for name, pid in self.processes().items() if name.startswith("host-")}

    async def pid(self, role: str) -> int:
        """The process id of a role, once the metrics page lists it; on a busy machine a page may lack one."""
        found: dict[str, int] = {}

        def listed() -> bool:
            found.update(self.processes())
            return role in found

        await until(listed, f"{role} serves")
        return found[role]

    async def any_host(self) -> tuple[str, int]:
        """Name and process id of a shard host that owns shards."""
        found: dict[str, int] = {}

        def listed() -> bool:
            found.update(self.hosts())
            return bool(found)

        await until(listed, "a host owns shards")
        return min(found.items())

    def healthy(self) -> bool:
        """Whether every process serves and two hosts own all shards."""
        roles = {"coordinator", "edge", "network", "api-0"}
        return self.page("/readyz")[0] == 200 and roles <= self.processes().keys() and len(self.hosts()) == 2

    def descendants(self) -> dict[int, str]:
        """Process ids and command lines of all descendants of the supervisor."""
        assert self.installation.pid is not None
        found: dict[int, str] = {}
        pids = [self.installation.pid]
        while pids:
            pid = pids.pop()
            try:
                # Look at all threads, because the main thread is not the one that starts Ray.
                tasks = Path(f"/proc/{pid}/task").glob("*/children")
                children = [child for task in tasks for child in task.read_text().split()]
                command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
            except OSError:
                continue
            found[pid] = command
            pids += map(int, children)
        return found

    @staticmethod
    def alive(processes: dict[int, str]) -> dict[int, str]:
        """The members of ``processes`` that still run."""
        return {pid: command for pid, command in processes.items() if not gone(pid)}

    def listening(self) -> set[str]:
        """The addresses on which the processes listen."""
        sockets = set()
        for pid in self.descendants():
            for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
                try:
                    sockets.add(str(descriptor.readlink()))
                except OSError:
                    continue  # closed meanwhile
        lines = [line.split() for table in ("tcp", "tcp6") for line in _table(table)]
        return {
            _address(local)
            for _, local, _, state, *_, inode in (line[:10] for line in lines)
            if state == LISTENING and f"socket:[{inode}]" in sockets
        }

    # --- the database and the keys ------------------------------------------------------------------------

    @property
    def settings(self) -> Settings:
        """The installation's own settings."""
        return Settings.load(var_dir=self.installation.var_dir)

    async def fetch(self, sql: str, *arguments: Any) -> list[asyncpg.Record]:
        """Rows of the database."""
        with database(self.settings) as dsn:
            connection = await asyncpg.connect(dsn)
            try:
                return await connection.fetch(sql, *arguments)
            finally:
                await connection.close(timeout=10)

    async def execute(self, *statements: tuple[str, *tuple[Any, ...]]) -> None:
        """Execute statements with their arguments, one after the other."""
        with database(self.settings) as dsn:
            connection = await asyncpg.connect(dsn)
            try:
                for statement, *arguments in statements:
                    await connection.execute(statement, *arguments)
            finally:
                await connection.close(timeout=10)

    async def assert_books(self, database_url: str | None = None) -> None:
        """Assert that the audit of its database, or of ``database_url``, finds no broken promise."""
        with database(self.settings.replace(database_url=database_url)) as dsn:
            found = await audit(dsn)
        broken = [str(finding) for finding in found if finding.broken]
        assert not broken, "\n".join(broken)

    async def card_data(self, *cards: dict[str, Any]) -> dict[str, dict[str, str]]:
        """``pan``, ``expiry`` (YYMM) and ``cvv2`` of each of ``cards``, by card id."""
        card_secrets = CardSecrets(Vault.from_settings(self.settings))
        rows = await self.fetch(
            "SELECT p.card_id::text, p.sealed, c.exp_year, c.exp_month, c.cvk_generation"
            " FROM pans p JOIN cards c ON c.id = p.card_id WHERE p.card_id = ANY($1::uuid[])",
            [card["id"] for card in cards],
        )
        found = {}
        for row in rows:
            pan = card_secrets.open(row["card_id"], row["sealed"])
            month = (row["exp_year"], row["exp_month"])
            found[row["card_id"]] = {
                "pan": "".join(pan),
                "expiry": f"{month[0] % 100:02d}{month[1]:02d}",
                "cvv2": card_secrets.cvv2(pan, *month, row["cvk_generation"]),
            }
        return found

    # --- API clients --------------------------------------------------------------------------------------

    def client(self, name: str, mode: str, role: str) -> dict[str, Any]:
        """The credentials of a client in ``run.json``."""
        return next(
            client
            for client in self.record["tenants"]
            if (client["name"], client["mode"], client["role"]) == (name, mode, role)
        )

    @asynccontextmanager
    async def caller(
        self, name: str = "demo", *, mode: str = "test", role: str = "admin"
    ) -> AsyncIterator[Caller]:
        """An API client over HTTP; its token is requested once and reused."""
        client = self.client(name, mode, role)
        timeout = httpx2.Timeout(30.0)
        async with httpx2.AsyncClient(base_url=self.record["base_url"], timeout=timeout) as http:
            caller = Caller(http, ClientCredentials(**client | {"scopes": tuple(client["scopes"])}))
            token = self.tokens.get(client["client_id"])
            if token is None:
                await caller.authenticate()
                self.tokens[client["client_id"]] = caller.token
            else:
                caller.token = token
            yield caller
