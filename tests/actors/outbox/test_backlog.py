"""The backlog counts due deliveries, in total and of the endpoint with the most."""

from __future__ import annotations

from actors.outbox.backlog import Backlog
from actors.outbox.relay import relay_connection
from tests.support.actors.outbox.database import EventDatabase
from tests.support.actors.outbox.waiting import eventually


async def test_backlog_counts_due_deliveries(database: EventDatabase, outbox_url: str) -> None:
    tenant = await database.tenant()
    endpoints = [await database.endpoint(tenant) for _ in range(2)]
    await database.events(tenant, 5)
    await database.connection.execute(
        "INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, state, next_attempt_at)"
        " SELECT time_ordered_id(now()), tenant_id, live, id, $1, 'pending', now() FROM events",
        endpoints[0],
    )
    await database.connection.execute(
        "INSERT INTO deliveries (id, tenant_id, live, event_id, endpoint_id, state, next_attempt_at)"
        " SELECT time_ordered_id(now()), tenant_id, live, id, $1, 'pending',"
        " now() + CASE row_number() OVER () WHEN 1 THEN interval '0' ELSE interval '1 hour' END FROM events",
        endpoints[1],
    )
    connection = relay_connection(outbox_url, "test-backlog")
    backlog = Backlog(connection)
    backlog.start()
    await eventually(lambda: backlog.figures.due)
    await backlog.stop()
    connection.close()
    assert (backlog.figures.due, backlog.figures.due_of_one_max) == (6, 5)
