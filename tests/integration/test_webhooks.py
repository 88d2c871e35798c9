"""Webhooks of a whole installation, also while the relay and the dispatcher are killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from typing import Any

from stripe import WebhookSignature

from engine.webhooks.signature import HEADER
from ops.embedded.local_https import server_side
from tests.support.actors.outbox.waiting import eventually
from tests.support.actors.webhooks.receivers import Receiver, receiving
from tests.support.api.driver import Caller
from tests.support.integration.stack import Stack, until

# Move the first attempts one minute into the past, so that the second ones become due.
A_MINUTE_LATER = """
    WITH waiting AS (
        UPDATE deliveries
        SET next_attempt_at = now(), first_attempt_at = first_attempt_at - interval '1 minute'
        WHERE state = 'pending' AND attempts = 1 AND claimed_at < now() - interval '1 second' RETURNING 1
    ) SELECT count(*) FROM waiting
"""


async def test_every_event_arrives_although_relay_and_dispatcher_are_killed(
    stack: Stack, demo: Caller
) -> None:
    var_dir = stack.installation.var_dir
    async with receiving(server_side(var_dir), Receiver(), var_dir) as receiver:
        endpoint = await demo.post("/v1/webhook-endpoints", {"url": receiver.url, "event_types": ["*"]})
        card = await demo.funded_card("1000.00")

        async def spend(times: int) -> None:
            for _ in range(times):
                assert (await demo.spend(card, "1.00"))["decision"] == "approved"

        await spend(3)
        await eventually(lambda: len(receiver.taken) >= 9)
        for name in ("dispatcher-0", "relay"):
            pid = await stack.pid(name)
            spending = asyncio.create_task(spend(8))
            os.kill(pid, signal.SIGKILL)
            await until(lambda name=name, pid=pid: stack.processes().get(name, pid) != pid, "it is back")  # type: ignore[misc]
            await spending
        # Every event of this tenant in test mode since the endpoint's creation.
        rows = await stack.fetch(
            "SELECT e.id::text FROM events e JOIN webhook_endpoints w USING (tenant_id, live)"
            " WHERE w.id = $1 AND e.created_at > w.created_at",
            endpoint["id"],
        )
        events = {row["id"] for row in rows}

        async def all_arrived() -> bool:
            await stack.fetch(A_MINUTE_LATER)
            return events <= receiver.taken.keys()

        await eventually(all_arrived)
        deliveries: Any = await demo.get(f"/v1/webhook-endpoints/{endpoint['id']}/deliveries?limit=100")
        assert len(deliveries["data"]) >= len(events) > 40
        response = await demo.send("DELETE", f"/v1/webhook-endpoints/{endpoint['id']}")
        assert response.status_code == 204
    for request in receiver.requests:
        assert json.loads(request.body)["id"] in receiver.taken
        assert WebhookSignature.verify_header(
            request.body.decode(), request.headers[HEADER.lower()], endpoint["secret"], tolerance=300
        )
    assert {len(bodies) for bodies in receiver.bodies().values()} == {1}
