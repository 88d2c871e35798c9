"""One installation for the whole package: the real command, on free ports, in a folder of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from ops.supervision.running_installation import RunningInstallation
from tests.api.driver import Caller
from tests.conftest import run_apart
from tests.integration.acquirer import Acquirer
from tests.integration.stack import Stack, until

# The tests judge balances: the simulated network presents nothing by itself.
SETTINGS = {"STANCHION_AUTO_CLEAR_SECONDS": "0"}


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The installation, started once; when all tests have done with it, its books are in order."""
    stack = Stack(RunningInstallation(tmp_path_factory.mktemp("integration") / "var", SETTINGS))
    stack.start()
    yield stack
    stack.stop()
    run_apart(stack.assert_books)


@pytest.fixture
async def stack(running: Stack) -> Stack:
    """The installation, whole again before a test begins."""
    await until(running.whole, "the installation is whole")
    return running


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
