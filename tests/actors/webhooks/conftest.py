"""Fixtures of the dispatchers' tests."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.actors.outbox.database import World
from tests.actors.webhooks.support import Post


@pytest.fixture
async def post(world: World, outbox_url: str) -> AsyncIterator[Post]:
    async with Post(world, outbox_url) as post:
        yield post
