"""Two relays on real servers: one works, and the other takes over when its session ends."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from actors.ids import new_id
from actors.outbox.role import RelayRole
from actors.roles import Context
from actors.settings import Settings
from tests.support.actors.outbox.database import EventDatabase
from tests.support.actors.outbox.waiting import eventually

EVENT = (
    "INSERT INTO events (id, tenant_id, live, type, created_at, data)"
    " VALUES ($1::uuid, $2::uuid, false, 'card.created', now(), '{}') RETURNING id::text"
)


@pytest.fixture
async def relays(outbox_url: str, settings: Settings) -> AsyncIterator[list[RelayRole]]:
    """The active relay and its standby."""
    settings = settings.replace(database_url=outbox_url)
    both = [RelayRole(Context(settings, name, None)) for name in ("relay", "relay-2")]  # type: ignore[arg-type]
    for relay in both:
        await relay.start()
    yield both
    for relay in both:
        await relay.stop()


async def test_standby_relays_when_the_active_relay_has_gone(
    relays: list[RelayRole], database: EventDatabase
) -> None:
    async def delivered(*events: str) -> bool:
        return {event for event, _ in await database.deliveries()} == set(events)

    async def event(tenant: str) -> str:
        """An event of this instant: the relay's retention deletes old ones."""
        return str(await database.connection.fetchval(EVENT, new_id(), tenant))

    tenant = await database.tenant()
    await database.endpoint(tenant)
    first = await event(tenant)
    await eventually(lambda: delivered(first))
    assert [relay.figures()["stanchion_role_active"] for relay in relays] == [1.0, 0.0]
    await relays[0].stop()
    second = await event(tenant)
    await eventually(lambda: delivered(first, second))
    assert relays[1].figures()["stanchion_role_active"] == 1.0
