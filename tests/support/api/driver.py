"""An API client for tests: credentials, a token, and a method for each frequent operation."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from typing import Any

import httpx2

from ops.database.clients import ClientCredentials

SECONDS_MAX = 60.0
FRESH = "a fresh key"


class Caller:
    """One API client."""

    def __init__(self, http: httpx2.AsyncClient, credentials: ClientCredentials) -> None:
        self.http = http
        self.credentials = credentials
        self.token = ""

    async def authenticate(self, scope: str | None = None) -> None:
        """Get a token."""
        form = {
            "grant_type": "client_credentials",
            "client_id": self.credentials.client_id,
            "client_secret": self.credentials.client_secret,
        }
        response = await self.http.post("/v1/oauth/token", data=form | ({"scope": scope} if scope else {}))
        assert response.status_code == 200, response.text
        self.token = response.json()["access_token"]

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        raw: bytes | None = None,
        key: str | None = FRESH,
        headers: dict[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one request; POST and PUT get a fresh idempotency key unless ``key`` is given."""
        sent = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        if key is not None and (key != FRESH or method in {"POST", "PUT"}):
            sent["Idempotency-Key"] = str(uuid.uuid4()) if key == FRESH else key
        content = raw if raw is not None else None if body is None else json.dumps(body).encode()
        if content is not None:
            sent["Content-Type"] = "application/json"
        return await self.http.request(method, path, content=content, headers=sent | (headers or {}))

    async def get(self, path: str, status: int = 200) -> Any:
        """Send a GET, expect ``status``, and return the body."""
        return self._body(await self.send("GET", path), status)

    async def post(self, path: str, body: Any = None, status: int = 201, **options: Any) -> Any:
        """Send a POST, expect ``status``, and return the body."""
        return self._body(await self.send("POST", path, body, **options), status)

    async def patch(self, path: str, body: Any, status: int = 200, **options: Any) -> Any:
        """Send a PATCH, expect ``status``, and return the body."""
        return self._body(await self.send("PATCH", path, body, **options), status)

    def _body(self, response: httpx2.Response, status: int) -> Any:
        assert response.status_code == status, response.text
        return response.json()

    async def programme(self, **fields: Any) -> Any:
        """A new programme in EUR."""
        return await self.post("/v1/programs", {"name": "Everyday", "currency": "EUR"} | fields)

    async def product(self, programme: Any, **fields: Any) -> Any:
        """A new virtual Visa product of ``programme``."""
        body = {
            "programme_id": programme["id"],
            "name": "Virtual",
            "network": "visa",
            "currency": programme["currency"],
            "form_factor": "virtual",
            "iin": "400000",
        }
        return await self.post("/v1/card-products", body | fields)

    async def cardholder(self, programme: Any, **fields: Any) -> Any:
        """A new cardholder of ``programme``."""
        body = {
            "programme_id": programme["id"],
            "given_name": "Ada",
            "family_name": "Lovelace",
            "email": "ada@example.com",
        }
        return await self.post("/v1/cardholders", body | fields)

    async def card(self, product: Any, cardholder: Any, **fields: Any) -> Any:
        """A new card."""
        body = {"card_product_id": product["id"], "cardholder_id": cardholder["id"]}
        return await self.post("/v1/cards", body | fields)

    async def funded_card(self, amount: str = "100.00", **fields: Any) -> Any:
        """A new card in a new programme, loaded with ``amount``."""
        programme = await self.programme()
        card = await self.card(await self.product(programme), await self.cardholder(programme), **fields)
        await self.load(card, amount)
        return card

    async def load(self, card: Any, amount: str, **options: Any) -> Any:
        """Simulate a load onto a card."""
        body = {"card_id": card["id"], "amount": {"amount": amount, "currency": card["currency"]}}
        return await self.post("/v1/simulated-loads", body, **options)

    async def endpoint(self, **fields: Any) -> Any:
        """A new webhook endpoint."""
        body = {"url": "https://hooks.example.com/stanchion", "event_types": ["card.created"]}
        return await self.post("/v1/webhook-endpoints", body | fields)

    async def spend(self, card: Any, amount: str, currency: str | None = None, **fields: Any) -> Any:
        """Simulate a spend, wait until it has ended, and return its record."""
        body = {
            "card_id": card["id"],
            "amount": {"amount": amount, "currency": currency or card["currency"]},
            "mcc": "5411",
            "merchant_name": "Corner Shop",
            "channel": "pos",
        }
        accepted = await self.post("/v1/simulated-spends", body | fields, 202, key=None)
        return await self.simulation(accepted["simulation_id"])

    async def simulation(self, id_: str) -> Any:
        """Wait until a simulation has ended and return its record."""
        deadline = time.monotonic() + SECONDS_MAX
        while True:
            record = await self.get(f"/v1/simulated-spends/{id_}")
            if record["state"] in {"decided", "failed"}:
                return record
            assert time.monotonic() < deadline, record
            await asyncio.sleep(0.01)
