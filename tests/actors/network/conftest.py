"""Fixtures for tests of the network package."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.network.card_secrets import CardSecrets
from actors.vault import Vault
from tests.support.actors.network.support import Harness, running_edge


@pytest.fixture
def vault() -> Vault:
    """A vault with a known key: with a random one, two card verification values can be equal by chance."""
    return Vault((bytes(range(32)),))


@pytest.fixture
def card_secrets(vault: Vault) -> CardSecrets:
    return CardSecrets(vault)


@pytest.fixture
async def harness(card_secrets: CardSecrets) -> AsyncIterator[Harness]:
    async with running_edge(card_secrets) as running:
        yield running
