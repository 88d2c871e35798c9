"""One installation for the whole package: the real command, on free ports, in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from ops.running import RunningInstallation
from tests.api.driver import Caller
from tests.integration.acquirer import Acquirer
from tests.integration.stack import Stack, until

# The tests judge balances: the simulated network presents nothing by itself.
SETTINGS = {"STANCHION_AUTO_CLEAR_SECONDS": "0"}


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The installation, started once."""
    stack = Stack(RunningInstallation(tmp_path_factory.mktemp("integration") / "var", SETTINGS))
    stack.start()
    yield stack
    stack.stop()


@pytest.fixture
async def stack(running: Stack) -> AsyncIterator[Stack]:
    """The installation, whole again before a test begins, its books in order after it ended."""
    await until(running.whole, "the installation is whole")
    yield running
    await running.assert_books()


@pytest.fixture
async def demo(stack: Stack) -> AsyncIterator[Caller]:
    """The demo tenant's administrator in test mode."""
    async with stack.caller() as caller:
        yield caller


@pytest.fixture
async def acquirer(stack: Stack) -> AsyncIterator[Acquirer]:
    """A network of somebody else's, connected to the edge."""
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        yield acquirer
