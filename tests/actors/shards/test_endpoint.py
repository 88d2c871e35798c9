"""Calls to a decision endpoint: the signed request, usable, unusable and late answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from actors.clock import SystemClock
from actors.egress.answers import EgressError, Received
from actors.shards.endpoint import SECRET_PURPOSE, DecisionEndpoint
from actors.vault import Vault
from engine.decision.delegation import EndpointResult
from engine.limits import DECISION_BODY_BYTES_MAX
from engine.programmes.programme import Programme
from engine.webhooks.signature import HEADER
from stanchion.signature import verdict_of
from tests.engine.decision.test_delegation import ID, QUESTION
from tests.support.actors.shards.support import turns
from tests.support.engine.build import PROGRAMME, programme

VAULT = Vault((bytes(range(32)),))
SECRET = "decsec_of_the_test"
DELEGATED = Programme(
    programme(decisioning="delegated", decision_url="https://decide.example/here"),
    3,
    None,
    VAULT.seal(SECRET_PURPOSE, SECRET.encode(), PROGRAMME.encode()),
)


class Receiver:
    """A fake HTTPS client with one prepared outcome."""

    def __init__(self, outcome: Received | EgressError) -> None:
        self.outcome = outcome
        self.sent: list[tuple[str, bytes, Mapping[str, str]]] = []
        self.gate = asyncio.Event()
        self.gate.set()

    async def post(
        self,
        url: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        timeout_seconds: float,
        body_bytes_max: int,
        live: bool,
        party: str | None = None,
    ) -> Received:
        assert party
        self.sent.append((url, body, headers))
        assert body_bytes_max == DECISION_BODY_BYTES_MAX
        await self.gate.wait()
        if isinstance(self.outcome, EgressError):
            raise self.outcome
        return self.outcome


def answer(**parts: Any) -> Received:
    return Received(200, json.dumps({"authorization_id": ID, "decision": "approved"} | parts).encode(), False)


def endpoint(receiver: Receiver) -> DecisionEndpoint:
    return DecisionEndpoint(receiver, VAULT, SystemClock())


async def test_question_is_signed_with_the_programmes_secret() -> None:
    receiver = Receiver(answer())
    assert await endpoint(receiver).ask(DELEGATED, QUESTION, 1_000) == EndpointResult("approved")
    ((url, body, headers),) = receiver.sent
    assert url == "https://decide.example/here"
    assert json.loads(body)["authorization_id"] == ID
    assert headers["Content-Type"] == "application/json"
    assert verdict_of(headers[HEADER], body, (SECRET,), SystemClock().now_ms() // 1000) == "valid"


@pytest.mark.parametrize(
    ("outcome", "trigger"),
    [
        (EgressError("connect"), "connection_error"),
        (EgressError("tls"), "connection_error"),
        (EgressError("resolution"), "connection_error"),
        (EgressError("target_refused"), "connection_error"),
        (EgressError("disconnected"), "connection_error"),
        (EgressError("timeout"), "timeout"),
        (EgressError("protocol"), "invalid_response"),
        (Received(302, b"", False), "invalid_response"),
        (Received(500, b"{}", False), "invalid_response"),
        (Received(200, b"garbage", False), "invalid_response"),
        (Received(200, answer().body, True), "invalid_response"),
    ],
)
async def test_unusable_answer_gives_its_trigger(outcome: Any, trigger: str) -> None:
    calls = endpoint(Receiver(outcome))
    assert await calls.ask(DELEGATED, QUESTION, 1_000) == EndpointResult(trigger=trigger)  # type: ignore[arg-type]
    assert (calls.counts.usable, calls.counts.unusable) == (0, 1)


async def test_late_answer_is_only_counted() -> None:
    receiver = Receiver(answer())
    receiver.gate.clear()
    calls = endpoint(receiver)
    assert await calls.ask(DELEGATED, QUESTION, 10) == EndpointResult(trigger="timeout")
    receiver.gate.set()
    await turns(lambda: calls.counts.late)
    assert (calls.counts.usable, calls.counts.unusable, calls.counts.late) == (0, 1, 1)


async def test_programme_without_an_endpoint_is_not_called() -> None:
    receiver = Receiver(answer())
    nowhere = Programme(programme(decisioning="delegated"), 1, None, DELEGATED.decision_secret_sealed)
    assert await endpoint(receiver).ask(nowhere, QUESTION, 1_000) == EndpointResult(
        trigger="connection_error"
    )
    assert receiver.sent == []


async def test_stop_cancels_open_calls() -> None:
    receiver = Receiver(answer())
    receiver.gate.clear()
    calls = endpoint(receiver)
    await calls.ask(DELEGATED, QUESTION, 10)
    await calls.stop()
    assert calls.counts.late == 0
