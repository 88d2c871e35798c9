"""A programme's own decision endpoint: real HTTPS, and whatever behaviour a test gives it."""

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


def said(question: Json, **members: Any) -> Answer:
    """An answer in the proper form; ``members`` are added or replaced."""
    body = {"authorization_id": question["authorization_id"], "decision": "approved"} | members
    return Answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})


async def approve(question: Json) -> Answer:
    return said(question)


async def decline(question: Json) -> Answer:
    return said(question, decision="declined")


def approve_up_to(amount: Any) -> Behaviour:
    """Approves ``amount``, given as the programme writes it."""

    async def behave(question: Json) -> Answer:
        return said(question, approved_amount=amount)

    return behave


def answer(status: int, body: bytes = b"", **headers: str) -> Behaviour:
    """Answers any question in these bytes."""

    async def behave(question: Json) -> Answer:
        return Answer(status, body, headers)

    return behave


def late(seconds: float) -> Behaviour:
    """Approves after a while."""

    async def behave(question: Json) -> Answer:
        await asyncio.sleep(seconds)
        return said(question)

    return behave


async def silent(question: Json) -> Answer:
    await asyncio.Event().wait()
    raise AssertionError("nobody ends the silence")


async def hang_up(question: Json) -> None:
    return None


async def other_status(question: Json) -> Answer:
    return Answer(201, said(question).body)


async def wrong_id(question: Json) -> Answer:
    return said(question, authorization_id=question["card_id"])


async def oversize(question: Json) -> Answer:
    return said(question, padding="x" * DECISION_BODY_BYTES_MAX)


@dataclass
class DecisionEndpoint:
    """What arrives is kept, also what is answered badly."""

    url: str = ""
    behave: Behaviour = approve
    requests: list[Request] = field(default_factory=list)

    @property
    def questions(self) -> list[Json]:
        """The questions so far."""
        return [json.loads(request.body) for request in self.requests]

    async def handle(self, request: Request) -> Answer | None:
        self.requests.append(request)
        return await self.behave(json.loads(request.body))


@asynccontextmanager
async def decision_endpoint(var_dir: Path, *names: str) -> AsyncIterator[DecisionEndpoint]:
    """An endpoint under the authority of ``var_dir``, with a certificate for ``names`` or this machine."""
    endpoint = DecisionEndpoint()
    async with serving(server_side(var_dir, *names), endpoint.handle) as address:
        endpoint.url = f"{address}/decide"
        with permitted(var_dir, HOST, int(address.rpartition(":")[2])):
            yield endpoint


@asynccontextmanager
async def refusing(var_dir: Path) -> AsyncIterator[str]:
    """The permitted address of an endpoint that refuses connections; no other process can take its port."""
    with socket.socket() as held:
        held.bind((HOST, 0))
        port = held.getsockname()[1]
        with permitted(var_dir, HOST, port):
            yield f"https://{HOST}:{port}/decide"
