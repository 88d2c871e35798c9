"""Fixtures of the network's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.network.custody import CardCustody
from actors.vault import Vault
from tests.actors.network.support import Harness, running_edge


@pytest.fixture
def custody(vault: Vault) -> CardCustody:
    return CardCustody(vault)


@pytest.fixture
async def harness(custody: CardCustody) -> AsyncIterator[Harness]:
    async with running_edge(custody) as running:
        yield running
