"""An HTTP server in front of a rival: FastAPI and uvicorn with one operation, which returns one decision."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from typing import Final

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from actors.ids import new_id_beside
from engine.commands import Authorize, Channel, WireIdentity
from engine.iso8583.elements import retrieval_reference, transmission_time
from engine.iso8583.identity import AUTHORIZATION, command_key
from engine.money import format_minor, parse_amount
from engine.replies import WireAnswer
from ops.bench.load import Submit

PATH: Final = "/authorizations"
_STANS: Final = 1_000_000


class Amount(BaseModel):
    """An amount as on the public API."""

    amount: str
    currency: str


class Asked(BaseModel):
    """One authorization, with the field names of the public API."""

    card_id: str
    amount: Amount
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel


class Decided(BaseModel):
    """The decision."""

    authorization_id: str
    response_code: str
    approved_amount: str


class Web:
    """``start`` and ``stop`` it once each."""

    def __init__(self, submit: Submit) -> None:
        self._submit = submit
        self._stan = os.getpid()
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> tuple[str, int]:
        """Listen; returns the address."""
        app = FastAPI(openapi_url=None)
        app.post(PATH)(self.authorize)
        listener = socket.create_server(("127.0.0.1", 0), backlog=512)
        config = uvicorn.Config(app, http="httptools", log_config=None, access_log=False, lifespan="off")
        self._server = uvicorn.Server(config)
        self._serving = asyncio.create_task(self._server.serve([listener]))
        host, port = listener.getsockname()
        return host, port

    async def stop(self) -> None:
        """Answer open requests and stop."""
        if self._server is not None and self._serving is not None:
            self._server.should_exit = True
            await self._serving

    async def authorize(self, asked: Asked) -> Decided:
        """Decide one authorization."""
        self._stan = (self._stan + 1) % _STANS
        stan, at_ms = f"{self._stan:06d}", time.time_ns() // 1_000_000
        acquirer_id = str(700_000_000 + os.getpid())
        wire = WireIdentity(acquirer_id, stan, transmission_time(at_ms), retrieval_reference(at_ms, stan))
        key = command_key(wire, AUTHORIZATION)
        reply = await self._submit(
            Authorize(
                id=new_id_beside(asked.card_id),
                command_key=key,
                card_id=asked.card_id,
                fingerprint=key,
                wire=wire,
                amount_minor=parse_amount(asked.amount.amount) or 0,
                currency=asked.amount.currency,
                mcc=asked.mcc,
                merchant_name=asked.merchant_name,
                merchant_country=asked.merchant_country,
                channel=asked.channel,
            )
        )
        assert isinstance(reply, WireAnswer), "a benchmark's cards exist"
        approved = format_minor(reply.approved_minor)
        return Decided(
            authorization_id=reply.authorization_id,
            response_code=reply.response_code,
            approved_amount=approved,
        )
