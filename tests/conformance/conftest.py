"""Fixtures of the conformance tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from tests.support.actors.network.support import Harness, running_edge


@pytest.fixture
async def harness(vault: Vault) -> AsyncIterator[Harness]:
    async with running_edge(CardSecrets(vault)) as running:
        yield running
