"""Edges of one installation, one for each shipped profile, in front of one respondent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from actors.network.edge import Edge
from actors.network.roles import EdgeRole
from engine.iso8583.profiles import SHIPPED
from tests.support.api.stack import Installation


@asynccontextmanager
async def edges_of(installation: Installation) -> AsyncIterator[dict[str, tuple[str, int]]]:
    """The address of an edge for each shipped profile. The installation's own edge has the default one."""
    role = installation.peers.roles["edge"]
    assert isinstance(role, EdgeRole)
    (link,) = role.links
    async with AsyncExitStack() as stack:
        addresses = {}
        for name, profile in SHIPPED.items():
            edge = Edge(link.respondent, profile=profile)
            addresses[name] = await edge.start("127.0.0.1", 0)
            stack.push_async_callback(edge.stop)
        yield addresses
