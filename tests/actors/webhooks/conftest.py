"""Fixtures for the tests of dispatchers."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.actors.outbox.database import EventDatabase
from tests.support.actors.webhooks.support import DeliverySetup


@pytest.fixture
async def setup(database: EventDatabase, outbox_url: str) -> AsyncIterator[DeliverySetup]:
    async with DeliverySetup(database, outbox_url) as setup:
        yield setup
