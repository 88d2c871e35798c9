"""A decision endpoint of a programme: an HTTPS server whose behaviour the test chooses."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from actors.egress.receivers import permitted
from engine.limits import DECISION_BODY_BYTES_MAX
from ops.embedded.local_https import HOST, Answer, Request, server_side, serving

Json = dict[str, Any]
Behaviour = Callable[[Json], Awaitable[Answer | None]]


def decision(question: Json, **members: Any) -> Answer:
    """A valid answer; ``members`` add or replace members of the body."""
    body = {"authorization_id": question["authorization_id"], "decision": "approved"} | members
    return Answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


async def approve(question: Json) -> Answer:
    return decision(question)


async def decline(question: Json) -> Answer:
    return decision(question, decision="declined")


def approve_up_to(amount: Any) -> Behaviour:
    """Approves ``amount``, a JSON value."""

    async def behave(question: Json) -> Answer:
        return decision(question, approved_amount=amount)

    return behave


def answer(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Answers every request with this status and body."""

    async def behave(question: Json) -> Answer:
        return Answer(status, body, headers)

    return behave


def late(seconds: float) -> Behaviour:
    """Approves after ``seconds``."""

    async def behave(question: Json) -> Answer:
        await asyncio.sleep(seconds)
        return decision(question)

    return behave


async def silent(question: Json) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("the event is never set")


async def hang_up(question: Json) -> None:
    return None


async def other_status(question: Json) -> Answer:
    return Answer(201, decision(question).body)


async def wrong_id(question: Json) -> Answer:
    return decision(question, authorization_id=question["card_id"])


async def oversize(question: Json) -> Answer:
    return decision(question, padding="x" * DECISION_BODY_BYTES_MAX)


@dataclass
class DecisionEndpoint:
    """``behave`` answers the requests; ``requests`` collects all of them."""

    url: str = ""
    behave: Behaviour = approve
    requests: list[Request] = field(default_factory=list)

    @property
    def questions(self) -> list[Json]:
        """The bodies of all requests."""
        return [json.loads(request.body) for request in self.requests]

    async def handle(self, request: Request) -> Answer | None:
        self.requests.append(request)
        return await self.behave(json.loads(request.body))


@asynccontextmanager
async def decision_endpoint(var_dir: Path, *names: str) -> AsyncIterator[DecisionEndpoint]:
    """An endpoint with a certificate of the authority in ``var_dir``, for ``names`` or the loopback
    address."""
    endpoint = DecisionEndpoint()
    async with serving(server_side(var_dir, *names), endpoint.handle) as address:
        endpoint.url = f"{address}/decide"
        with permitted(var_dir, HOST, int(address.rpartition(":")[2])):
            yield endpoint


@asynccontextmanager
async def refusing(var_dir: Path) -> AsyncIterator[str]:
    """The permitted address of an endpoint that refuses connections. Its port stays reserved."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        port = held.getsockname()[1]
        with permitted(var_dir, HOST, port):
            yield f"https://{HOST}:{port}/decide"
