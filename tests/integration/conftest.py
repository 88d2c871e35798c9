"""One installation for the whole package, started by the real command on free ports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from ops.supervision.running_installation import RunningInstallation
from tests.conftest import run_apart
from tests.support.api.driver import Caller
from tests.support.integration.acquirer import Acquirer
from tests.support.integration.stack import Stack, until

# The tests assert balances, so the simulated network must not present sales by itself.
SETTINGS = {"STANCHION_AUTO_CLEAR_SECONDS": "0"}


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The installation, started once. After the last test its books are audited."""
    stack = Stack(RunningInstallation(tmp_path_factory.mktemp("integration") / "var", SETTINGS))
    stack.start()
    yield stack
    stack.stop()
    run_apart(stack.assert_books)


@pytest.fixture
async def stack(running: Stack) -> Stack:
    """The installation, after all its processes serve."""
    await until(running.healthy, "all processes serve")
    return running


@pytest.fixture
async def demo(stack: Stack) -> AsyncIterator[Caller]:
    """The demo tenant's administrator in test mode."""
    async with stack.caller() as caller:
        yield caller


@pytest.fixture
async def acquirer(stack: Stack) -> AsyncIterator[Acquirer]:
    """An external acquirer, connected to the edge."""
    async with Acquirer(stack.record["iso8583"]) as acquirer:
        yield acquirer
