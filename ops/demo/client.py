"""The API as the demo's tenant uses it."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Final
from uuid import uuid4

import aiohttp

DECISION_SECONDS_MAX: Final = 20.0

Json = dict[str, Any]


class DemoError(Exception):
    """An answer was not the promised one. The message is one line."""


def eur(amount: str) -> Json:
    """A Money object in euros."""
    return {"amount": amount, "currency": "EUR"}


def expect(fact: str, seen: object, promised: object) -> None:
    """Raise DemoError unless ``seen`` is what was ``promised``."""
    if seen != promised:
        raise DemoError(f"{fact}: {seen!r} where {promised!r} was promised")


@dataclass
class Api:
    """One API client of the demo tenant, with its token."""

    session: aiohttp.ClientSession
    token: str

    @classmethod
    async def sign_in(cls, session: aiohttp.ClientSession, client: Json) -> Api:
        """Trade the client's credentials for a token (OAuth 2.0 client credentials)."""
        form = {"grant_type": "client_credentials"} | {
            name: client[name] for name in ("client_id", "client_secret")
        }
        async with session.post("/v1/oauth/token", data=form) as answer:
            expect("status of the token request", answer.status, 200)
            return cls(session, (await answer.json())["access_token"])

    async def call(self, method: str, path: str, body: Json | None = None, *, status: int = 200) -> Json:
        """One request; every change carries a fresh idempotency key. Raises DemoError on another status."""
        headers = {"Authorization": f"Bearer {self.token}"}
        if method == "POST" and path != "/v1/simulated-spends":
            headers["Idempotency-Key"] = str(uuid4())
        async with self.session.request(method, path, json=body, headers=headers) as answer:
            content: Json = await answer.json(content_type=None)
            if answer.status != status:
                detail = content.get("detail") or content.get("title")
                raise DemoError(f"{method} {path}: {answer.status} ({detail}) where {status} was promised")
            return content

    async def simulate(self, path: str, body: Json) -> Json:
        """The record of a new simulation, once its answer has come back over the wire."""
        accepted = await self.call("POST", path, body, status=202)
        deadline = time.monotonic() + DECISION_SECONDS_MAX
        while True:
            record = await self.call("GET", f"/v1/simulated-spends/{accepted['simulation_id']}")
            if record["state"] in ("decided", "failed"):
                expect("state of the simulation", record["state"], "decided")
                return record
            if time.monotonic() > deadline:
                raise DemoError(f"a simulation is still {record['state']} after {DECISION_SECONDS_MAX:.0f} s")
            await asyncio.sleep(0.02)
