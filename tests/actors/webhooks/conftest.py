"""Fixtures of the dispatchers' tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import asyncpg
import pytest

from tests.actors.outbox.database import World
from tests.actors.webhooks.support import Post


@pytest.fixture
async def world(database_url: str) -> AsyncIterator[World]:
    connection = await asyncpg.connect(database_url)
    yield World(connection)
    await connection.close()


@pytest.fixture
async def post(world: World, database_url: str) -> AsyncIterator[Post]:
    async with Post(world, database_url) as post:
        yield post
