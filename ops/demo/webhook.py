"""The chapter about webhooks: an event is delivered, signed, and retried until the receiver accepts it."""

from __future__ import annotations

import json
import time
from pathlib import Path
from queue import Empty, Queue
from typing import Final

from rich.console import Console

from ops.demo.checks import DemoError, Json, eur, expect
from ops.demo.endpoint import answering
from ops.demo.story import decided
from ops.embedded.local_https import Answer, Request
from stanchion import SIGNATURE_HEADER, Client, verify_signature

TYPE: Final = "authorization.decided"
ARRIVAL_SECONDS_MAX: Final = 15.0


class Webhook:
    """One endpoint and one event on its way to it. ``var_dir``: the installation's, for its authority."""

    def __init__(self, console: Console, var_dir: Path) -> None:
        self._console = console
        self._var_dir = var_dir
        self._arrived: Queue[Request] = Queue()
        self._statuses = [500]
        self._card_id = ""

    def run(self, api: Client) -> None:
        """From the endpoint to a requested redelivery."""
        self._console.print("\n[bold]A webhook: the receiver fails once, and gets the event again[/bold]")
        with answering(self._var_dir, self._receive) as address:
            endpoint = api.webhook_endpoints.create(url=f"{address}/hook", event_types=[TYPE])
            self._print(f"an endpoint for {TYPE} at {endpoint['url']}; its signing secret is shown once")
            self._spend(api)
            started = time.monotonic()
            first = self._next(endpoint["secret"])
            event: Json = json.loads(first.body)
            expect("type of the event", event["type"], TYPE)
            expect("the event in the log", api.events.get(event["id"]), event)
            self._print(
                f"it arrives {time.monotonic() - started:.1f} s after the answer, signature verified,"
            )
            self._print(f"with decision {event['data']['decision']} over {event['data']['amount']} EUR")
            self._failed(api, endpoint["id"], event["id"])
            api.events.redeliver(event["id"], endpoint_id=endpoint["id"])
            expect("the bytes of the redelivery", self._next(endpoint["secret"]).body, first.body)
            self._print("redelivered on request, it has the same bytes")
            api.webhook_endpoints.delete(endpoint["id"])

    def _spend(self, api: Client) -> None:
        programme = api.programs.create(name="Told", currency="EUR")
        product = api.card_products.create(
            programme_id=programme["id"],
            name="Told",
            network="visa",
            currency="EUR",
            form_factor="virtual",
            iin="45600000",
        )
        holder = api.cardholders.create(
            programme_id=programme["id"], given_name="Mary", family_name="Jackson", email="mary@example.com"
        )
        card = api.cards.create(card_product_id=product["id"], cardholder_id=holder["id"])
        api.cards.load(card["id"], eur("20.00"))
        self._card_id = card["id"]
        spend = api.simulations.spend(
            card_id=card["id"],
            amount=eur("12.00"),
            mcc="5462",
            merchant_name="Corner Bakery",
            channel="pos",
        )
        expect("decision", decided(api, spend)["decision"], "approved")
        self._print("12.00 at Corner Bakery: approved")

    def _failed(self, api: Client, endpoint_id: str, event_id: str) -> None:
        """The record of the attempt, which is written after the receiver has answered."""
        deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
        while True:
            deliveries = api.webhook_endpoints.deliveries(endpoint_id)
            delivery = next(each for each in deliveries if each["event_id"] == event_id)
            if delivery["attempts"]:
                break
            if time.monotonic() > deadline:
                raise DemoError("the attempt is not recorded")
            time.sleep(0.05)
        expect("the receiver's answer", delivery["attempts"][0]["status_code"], 500)
        expect("state of the delivery", delivery["state"], "pending")
        self._print(f"the receiver answers 500, so the next attempt is due at {delivery['next_attempt_at']}")

    def _next(self, secret: str) -> Request:
        try:
            request = self._arrived.get(timeout=ARRIVAL_SECONDS_MAX)
        except Empty:
            raise DemoError("no webhook arrives") from None
        verify_signature(request.headers.get(SIGNATURE_HEADER.lower()), request.body, [secret])
        return request

    async def _receive(self, request: Request) -> Answer:
        """Events from just before the endpoint was created may arrive too; they are ignored."""
        if json.loads(request.body)["data"]["card_id"] != self._card_id:
            return Answer(200)
        self._arrived.put(request)
        return Answer(self._statuses.pop() if self._statuses else 200)

    def _print(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False)
