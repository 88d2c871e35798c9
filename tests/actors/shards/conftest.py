"""A cluster of hosts in the test's event loop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.actors.shards.support import ALL_SHARDS, Cluster, TestHost, furnish


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    """A cluster without hosts; hosts that a test adds are stopped at its end."""
    cluster = Cluster()
    yield cluster
    await cluster.stop()


@pytest.fixture
async def host(cluster: Cluster) -> TestHost:
    """One host that owns every shard, with a programme and two cards."""
    host = await cluster.add("a", ALL_SHARDS)
    await furnish(host)
    return host
