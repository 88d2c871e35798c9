"""Real servers for the tests that need them: one per session, with a fresh database for each test.

``database_url`` is a copy of a migrated template, which takes a few milliseconds in memory. Tests of the
journal and of migrations run a second time on the machine's own PostgreSQL, if it has one;
``STANCHION_TEST_DATABASE_URL`` (a superuser's address) makes the suite use only that server.

Property tests use the same examples in each run, so that a failure is reproducible.
``STANCHION_TEST_EXAMPLES=searching`` tries other examples each time, as `make chaos` does.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import asyncpg
import pytest
from hypothesis import HealthCheck
from hypothesis import settings as examples
from redis import Redis

from actors.settings import Settings
from actors.vault import Vault
from ops.database.migrate import SERVER_VERSION_MIN, migrate
from ops.embedded.ports import free_ports
from ops.embedded.postgres import SETTINGS, EmbeddedPostgres
from ops.embedded.redis import EmbeddedRedis
from tests.order import rank, scheduling
from tests.support.actors.shards.virtual_time import VirtualLoop
from tests.support.steady_loop import SteadyLoop

T = TypeVar("T")

GIVEN_SERVER = "STANCHION_TEST_DATABASE_URL"
MEMORY, MEMORY_BYTES_MIN = Path("/dev/shm"), 2 << 30
IN_MEMORY = "stanchion-test-"
"""Begin of the names of folders in memory; the pid of their session follows."""
SYSTEM_FOLDERS = Path("/usr/lib/postgresql")
# Tests with hand-written SQL also run on the operator's PostgreSQL.
EVERY_SERVER = (
    "tests/actors/journal/",
    "tests/ops/database/test_migrate",
    "tests/integration/test_own_servers",
)

# A developer's own settings must not affect tests.
for _name in [name for name in os.environ if name.startswith("STANCHION_")]:
    if not _name.startswith(("STANCHION_TEST_", "STANCHION_CHAOS")):
        del os.environ[_name]

# The duration of an example depends on the machine.
examples.register_profile("searching", deadline=None, suppress_health_check=[HealthCheck.too_slow])
examples.register_profile("settled", examples.get_profile("searching"), derandomize=True)
examples.load_profile(os.environ.get("STANCHION_TEST_EXAMPLES", "settled"))


@dataclass(frozen=True)
class PostgresServer:
    """A server on which tests create databases. ``template``: a migrated, empty one; ``strategy``: how it is
    copied."""

    admin_url: str
    template: str
    strategy: str = ""

    def create(self, name: str) -> None:
        """Create a migrated, empty database."""
        execute(self.admin_url, f"CREATE DATABASE {name} TEMPLATE {self.template} {self.strategy}")

    def drop(self, name: str) -> None:
        """Drop a database, if it exists."""
        execute(self.admin_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def database(self, name: str) -> str:
        """The address of database ``name`` on this server."""
        return urlunsplit(urlsplit(self.admin_url)._replace(path=f"/{name}"))


def run_apart(job: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``job`` in an event loop in a thread of its own, apart from the test's loop."""
    with ThreadPoolExecutor(1) as executor:
        return executor.submit(lambda: asyncio.run(job())).result()


def execute(url: str, *statements: str) -> None:
    """Run statements one by one outside a transaction, as ``CREATE DATABASE`` requires."""

    async def job() -> None:
        connection = await asyncpg.connect(url)
        for statement in statements:
            await connection.execute(statement)
        await connection.close()

    run_apart(job)


def system_bin_dir() -> Path | None:
    """The binaries of the oldest supported PostgreSQL among the system's packages."""
    versions = sorted(
        int(path.name) for path in SYSTEM_FOLDERS.glob("[0-9]*") if (path / "bin/postgres").exists()
    )
    usable = [version for version in versions if version >= SERVER_VERSION_MIN]
    return SYSTEM_FOLDERS / str(usable[0]) / "bin" if usable else None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the servers of each test, by parameter, so that a session keeps one server of each kind."""
    if "postgres_server" not in metafunc.fixturenames:
        return
    kinds = ["given"] if GIVEN_SERVER in os.environ else ["embedded"]
    path = metafunc.definition.path.as_posix()
    if kinds == ["embedded"] and system_bin_dir() and any(part in path for part in EVERY_SERVER):
        kinds.append("system")
    metafunc.parametrize("postgres_server", kinds, indirect=True, scope="session")


_virtual_time = False
"""Whether the test that runs has the mark ``virtual_time``."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    global _virtual_time
    _virtual_time = item.get_closest_marker("virtual_time") is not None


def new_loop() -> asyncio.AbstractEventLoop:
    """The clock of a test with the mark ``virtual_time`` jumps to the next timer; the clock of any other
    stops while the process gets no processor time."""
    return VirtualLoop() if _virtual_time else SteadyLoop()


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """One factory for all tests: another one would end the fixtures of the session's loop."""
    return {"of the test": new_loop}


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """``--dist loadfile`` in the order of ``tests.order``."""
    return scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect without garbage collections, and keep the collected tests out of all later ones: each would
    look at more than a million objects that stay."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a worker, put long units first. Within a unit, the order of tests stays."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid))


class BriefPostgres(EmbeddedPostgres):
    """A server with little data, for a session."""

    settings = SETTINGS | {"min_wal_size": "32MB", "max_wal_size": "256MB"}


def folder_in_memory(ending: ExitStack) -> Path | None:
    """A folder in the machine's memory that ``ending`` deletes; ``None`` without enough of it.

    On a disk, a new database takes a third of a second: the server syncs hundreds of files.
    """
    if not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < MEMORY_BYTES_MIN:
        return None
    for left in MEMORY.glob(f"{IN_MEMORY}*"):
        # Of a session that was killed.
        if not Path(f"/proc/{left.name.split('-')[-2]}").exists():
            shutil.rmtree(left, ignore_errors=True)
    folder = tempfile.mkdtemp(prefix=f"{IN_MEMORY}{os.getpid()}-", dir=MEMORY)
    ending.callback(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@pytest.fixture(scope="session")
def postgres_servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], PostgresServer]]:
    """The server of a kind, started on first use. Test files alternate between kinds, so both stay until the
    session ends."""
    with ExitStack() as running:

        @cache
        def server_of(kind: str) -> PostgresServer:
            if kind == "given":
                return with_template(os.environ[GIVEN_SERVER])
            bin_dir = system_bin_dir() if kind == "system" else None
            folder = folder_in_memory(running) or tmp_path_factory.mktemp(f"postgres-{kind}")
            server = BriefPostgres(folder, bin_dir=bin_dir)
            running.callback(server.stop)
            return with_template(server.start(), "STRATEGY FILE_COPY")

        yield server_of


@pytest.fixture(scope="session")
def postgres_server(
    request: pytest.FixtureRequest, postgres_servers: Callable[[str], PostgresServer]
) -> PostgresServer:
    """One PostgreSQL for the session, with a migrated template database."""
    return postgres_servers(request.param)


def with_template(admin_url: str, strategy: str = "") -> PostgresServer:
    """Create and migrate the template database of a server; an older one is replaced."""
    server = PostgresServer(admin_url, "stanchion_test_template", strategy)
    server.drop(server.template)
    execute(admin_url, f"CREATE DATABASE {server.template} TEMPLATE template0 ENCODING 'UTF8'")
    run_apart(lambda: migrate(server.database(server.template)))
    return server


_numbers = itertools.count(1)


@pytest.fixture
def database_url(postgres_server: PostgresServer) -> Iterator[str]:
    """A fresh, migrated database."""
    name = f"stanchion_test_{os.getpid()}_{next(_numbers)}"
    postgres_server.create(name)
    yield postgres_server.database(name)
    postgres_server.drop(name)


@pytest.fixture(scope="session")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One Redis for the session."""
    server = EmbeddedRedis(tmp_path_factory.mktemp("redis"))
    try:
        yield server.start()
    finally:
        server.stop()


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """An empty Redis."""
    with Redis.from_url(redis_server) as client:
        client.flushall()
    return redis_server


@pytest.fixture(autouse=True)
def lost_tasks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Records the names of ended essential tasks in a test instead of ending the process; a test that expects
    some clears the list."""
    lost: list[str] = []
    monkeypatch.setattr("actors.essential.end_process", lambda name, failure: lost.append(name))
    yield lost
    assert lost == [], "an essential task has ended"


@pytest.fixture
def var_dir(tmp_path: Path) -> Path:
    """The state folder of an installation."""
    return tmp_path / "var"


@pytest.fixture
def settings(var_dir: Path, database_url: str, redis_url: str) -> Settings:
    """An installation on a fresh database and an empty Redis, on free ports."""
    return Settings.load(
        var_dir=var_dir,
        database_url=database_url,
        redis_url=redis_url,
        **dict(zip(("api_port", "vision_port", "iso8583_port", "metrics_port"), free_ports(4), strict=True)),
    )


@pytest.fixture
def vault(var_dir: Path) -> Vault:
    """The vault of the installation in ``var_dir``, with a key of its own."""
    return Vault.from_settings(Settings.load(var_dir=var_dir))
