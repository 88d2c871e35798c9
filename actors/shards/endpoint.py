"""Calls to a programme's decision endpoint: one signed attempt, without redirects, within a deadline."""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

import structlog

from actors.clock import Clock
from actors.egress.answers import EgressError, Received
from actors.metrics import Labels
from actors.vault import Vault
from engine.decision.delegation import EndpointResult, Question, question_body, read_answer
from engine.limits import DECISION_BODY_BYTES_MAX, LATE_ANSWER_SECONDS
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Trigger
from engine.webhooks.signature import HEADER, sign

SECRET_PURPOSE: Final = "decision-secret"
"""Purpose of the sealed signing secret in the vault; its context is the programme's id."""

_log = structlog.get_logger(__name__)
_TRIGGERS: Final[dict[str, Trigger]] = {
    "timeout": "timeout",
    "protocol": "invalid_response",
    "disconnected": "connection_error",
}


class Post(Protocol):
    """An HTTPS client (``actors.egress.Egress``)."""

    async def post(
        self,
        url: str,
        body: bytes,
        headers: dict[str, str],
        *,
        timeout_seconds: float,
        body_bytes_max: int,
        live: bool,
        party: str | None = None,
    ) -> Received:
        """Raises ``EgressError``."""


class AnswerCounts:
    """Answers of endpoints to the calls of one host."""

    def __init__(self) -> None:
        self.usable = 0
        self.unusable = 0
        self.late = 0

    def figure(self) -> dict[Labels, float]:
        """The counts by kind of answer, for the metrics page."""
        return {("usable",): self.usable, ("unusable",): self.unusable, ("late",): self.late}


class DecisionEndpoint:
    """Asks programmes. A call stays open a little after its deadline, so that a late answer is counted and
    logged; it has no other effect."""

    def __init__(self, egress: Post, vault: Vault, clock: Clock) -> None:
        self._egress = egress
        self._vault = vault
        self._clock = clock
        self._secrets: dict[bytes, str] = {}
        self._calls: set[asyncio.Task[EndpointResult]] = set()
        self.counts = AnswerCounts()

    async def ask(self, programme: Programme, question: Question, timeout_ms: int) -> EndpointResult:
        """Return the programme's usable answer within ``timeout_ms``, or the trigger of a stand-in."""
        call = asyncio.get_running_loop().create_task(self._call(programme, question, timeout_ms))
        self._calls.add(call)
        call.add_done_callback(self._calls.discard)
        await asyncio.wait((call,), timeout=timeout_ms / 1000)
        if not call.done():
            call.add_done_callback(self._on_late)
            self.counts.unusable += 1
            return EndpointResult(trigger="timeout")
        result = call.result()
        if result.decision is None:
            self.counts.unusable += 1
        else:
            self.counts.usable += 1
        return result

    async def stop(self) -> None:
        """Cancel all open calls."""
        calls = tuple(self._calls)
        for call in calls:
            call.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    async def _call(self, programme: Programme, question: Question, timeout_ms: int) -> EndpointResult:
        config, now_ms = programme.config, self._clock.now_ms()
        if config.decision_url is None or programme.decision_secret_sealed is None:
            return EndpointResult(trigger="connection_error")
        body = question_body(question, now_ms + timeout_ms)
        secret = self._secret(config.id, programme.decision_secret_sealed)
        headers = {
            "Content-Type": "application/json",
            HEADER: sign(body, (secret,), now_ms // 1000),
        }
        try:
            received = await self._egress.post(
                config.decision_url,
                body,
                headers,
                timeout_seconds=timeout_ms / 1000 + LATE_ANSWER_SECONDS,
                body_bytes_max=DECISION_BODY_BYTES_MAX,
                live=config.live,
                party=config.tenant_id,
            )
        except EgressError as failure:
            return EndpointResult(trigger=_TRIGGERS.get(failure.reason, "connection_error"))
        if received.truncated:
            return EndpointResult(trigger="invalid_response")
        return read_answer(question, received.status, received.body)

    def _secret(self, programme_id: str, sealed: bytes) -> str:
        secret = self._secrets.get(sealed)
        if secret is None:
            secret = self._vault.open(SECRET_PURPOSE, sealed, programme_id.encode()).decode()
            self._secrets[sealed] = secret
        return secret

    def _on_late(self, call: asyncio.Task[EndpointResult]) -> None:
        if not call.cancelled() and call.exception() is None and call.result().decision is not None:
            self.counts.late += 1
            _log.warning("late_decision", decision=call.result().decision)
