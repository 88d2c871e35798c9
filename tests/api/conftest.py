"""Fixtures of the API's tests.

All tests share one installation; each test uses tenants of its own. A test that breaks the installation
starts another one.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path

import pytest
import pytest_asyncio

from actors.settings import Settings
from actors.vault import Vault
from ops.embedded.ports import free_port
from tests.conftest import PostgresServer
from tests.support.api.driver import Caller
from tests.support.api.event_schemas import faults_of_all
from tests.support.api.stack import Installation, installation
from tests.support.api.vision.browser import shared_browser

_numbers = count(1)


SHARED_LOOP = pytest.mark.asyncio(loop_scope="session")


def is_ours(item: pytest.Item) -> bool:
    """Whether the item is an asynchronous test of this folder in real time."""
    ours = item.path.is_relative_to(Path(__file__).parent)
    real = item.get_closest_marker("virtual_time") is None
    return ours and real and inspect.iscoroutinefunction(getattr(item, "function", None))


@pytest.hookimpl(tryfirst=True)
def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Mark the tests before pytest-asyncio chooses the scope of their loop's factory: with a factory for each
    test, the loop and the shared installation would end after each test."""
    if is_ours(metafunc.definition):
        metafunc.definition.add_marker(SHARED_LOOP, append=False)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the asynchronous tests of this folder in the event loop of the shared installation."""
    for item in filter(is_ours, items):
        item.add_marker(SHARED_LOOP, append=False)


@pytest.fixture(scope="session")
def shared_settings(
    postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Settings]:
    """Settings of the shared installation, with a database of its own."""
    name = "stanchion_test_api"
    postgres_server.create(name)
    yield Settings.load(
        var_dir=tmp_path_factory.mktemp("api"),
        database_url=postgres_server.database(name),
        iso8583_port=free_port(),
        # Automatic clearing is off: it would change balances during a test.
        auto_clear_seconds=0,
    )
    postgres_server.drop(name)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def running(shared_settings: Settings) -> AsyncIterator[Installation]:
    """The shared installation. The tests' browser, if they start one, ends before it."""
    async with installation(shared_settings, Vault.from_settings(shared_settings)) as started:
        async with shared_browser():
            yield started
        # All events that the tests published fit the schemas of the catalogue.
        assert await faults_of_all(started.services.pool) == []


@pytest.fixture
def tenant() -> str:
    """The name of a tenant that no other test uses."""
    return f"tenant-{next(_numbers)}"


@pytest_asyncio.fixture(loop_scope="session")
async def acme(running: Installation, tenant: str) -> Caller:
    """The test-mode admin client of a new tenant."""
    return await running.caller(tenant)
