"""Webhooks from end to end: an endpoint created over the API gets signed deliveries, which are listed with
their attempts."""

from __future__ import annotations

import json
from ipaddress import ip_network

import pytest
from stripe import WebhookSignature

from actors.settings import Settings
from actors.vault import Vault
from engine.webhooks.signature import HEADER
from ops.embedded.local_https import Request, make_authority, server_side
from tests.support.actors.outbox.waiting import eventually
from tests.support.actors.webhooks.receivers import Receiver, receiving
from tests.support.api.driver import Caller
from tests.support.api.stack import installation

_RELAYED = "SELECT NOT EXISTS (SELECT FROM events e, relay_progress p WHERE e.txid >= p.txid)"


@pytest.fixture
def local(settings: Settings) -> Settings:
    """Settings that allow deliveries to this machine."""
    return settings.replace(
        egress_allow=(ip_network("127.0.0.0/8"),),
        egress_ca_file=make_authority(settings.var_dir),
        auto_clear_seconds=0,
    )


async def test_endpoint_gets_signed_deliveries_until_it_is_disabled(local: Settings) -> None:
    vault, answers = Vault.from_settings(local), [500]

    def answer(_request: Request) -> int:
        return answers.pop() if answers else 200

    async with (
        installation(local, vault, webhooks=True) as started,
        receiving(server_side(local.var_dir), Receiver(answer)) as receiver,
    ):
        acme = await started.caller("acme")
        other = await started.caller("other")
        endpoint = await acme.post(
            "/v1/webhook-endpoints", {"url": receiver.url, "event_types": ["authorization.decided"]}
        )
        for caller in (acme, other):
            spend = await caller.spend(await caller.funded_card(), "5.00")
            assert spend["decision"] == "approved"

        # The first attempt fails; the schedule repeats it a minute later.
        await eventually(lambda: receiver.requests)
        deliveries = f"/v1/webhook-endpoints/{endpoint['id']}/deliveries"
        failed = await eventually(lambda: _attempted(acme, deliveries))
        assert (failed["state"], failed["attempts"][0]["status_code"]) == ("pending", 500)
        event = await acme.get(f"/v1/events/{failed['event_id']}")

        # A redelivery is sent at once, with the same bytes.
        again = await acme.post(
            f"/v1/events/{failed['event_id']}/redeliver", {"endpoint_id": endpoint["id"]}, 202
        )
        await eventually(lambda: len(receiver.requests) == 2)
        first, second = receiver.requests
        assert first.body == second.body
        assert json.loads(first.body) == event
        for request in (first, second):
            assert WebhookSignature.verify_header(
                request.body.decode(), request.headers[HEADER.lower()], endpoint["secret"], tolerance=300
            )
        record = await eventually(lambda: _delivered(acme, deliveries, again["delivery_id"]))
        assert [attempt["status_code"] for attempt in record["attempts"]] == [200]

        # A test event reaches its endpoint, and no other that subscribes to all types.
        rest = await acme.post("/v1/webhook-endpoints", {"url": receiver.url, "event_types": ["*"]})
        tested = await acme.post(f"/v1/webhook-endpoints/{endpoint['id']}/test", None, 202)
        await eventually(lambda: _delivered(acme, deliveries, tested["delivery_id"]))
        await eventually(lambda: started.services.pool.fetchval(_RELAYED))
        assert [json.loads(request.body)["type"] for request in receiver.requests[2:]] == [
            "webhook_endpoint.tested"
        ]
        assert (await acme.get(f"/v1/webhook-endpoints/{rest['id']}/deliveries"))["data"] == []
        assert (await acme.send("DELETE", f"/v1/webhook-endpoints/{rest['id']}")).status_code == 204

        # A disabled endpoint gets no deliveries; it never got the other tenant's events.
        await acme.patch(f"/v1/webhook-endpoints/{endpoint['id']}", {"status": "disabled"})
        await acme.spend(await acme.funded_card(), "5.00")
        await eventually(lambda: started.services.pool.fetchval(_RELAYED))
        assert len(receiver.requests) == 3


async def _attempted(caller: Caller, path: str) -> object:
    return next((each for each in (await caller.get(path))["data"] if each["attempts"]), None)


async def _delivered(caller: Caller, path: str, delivery_id: str) -> object:
    found = (await caller.get(f"{path}?state=delivered"))["data"]
    return next((each for each in found if each["id"] == delivery_id), None)
