"""Fixtures of the tests that relay and deliver on a real database."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.actors.outbox.database import World


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    connection = await asyncpg.connect(database_url)
    yield World(connection)
    await connection.close()
