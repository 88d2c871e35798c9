"""Fixtures of the API's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.settings import Settings
from actors.vault import Vault
from ops.embedded.ports import free_port
from tests.api.driver import Caller
from tests.api.stack import Installation, installation


@pytest.fixture
async def running(settings: Settings, vault: Vault) -> AsyncIterator[Installation]:
    """An installation on a fresh database."""
    async with installation(settings.replace(iso8583_port=free_port()), vault) as started:
        yield started


@pytest.fixture
async def acme(running: Installation) -> Caller:
    """The test-mode admin client of a tenant."""
    return await running.caller("acme")
