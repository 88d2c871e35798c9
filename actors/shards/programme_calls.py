"""Calls to a delegated programme: to its decision endpoint and to its owner."""

from __future__ import annotations

from collections.abc import Awaitable

from actors.shards.endpoint import DecisionEndpoint
from actors.shards.exposure import ExposureClient
from engine.decision.delegation import EndpointResult, Question
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest


class RemoteProgrammeCalls:
    """Implements ``actors.shards.consultations.ProgrammeCalls``."""

    def __init__(self, endpoint: DecisionEndpoint, exposure: ExposureClient) -> None:
        self._endpoint = endpoint
        self._exposure = exposure

    def ask(self, programme: Programme, question: Question, timeout_ms: int) -> Awaitable[EndpointResult]:
        return self._endpoint.ask(programme, question, timeout_ms)

    def grant(self, programme_id: str, request: StandInRequest) -> Awaitable[Grant | None]:
        return self._exposure.grant(programme_id, request)

    def preview(self, programme_id: str, request: StandInRequest) -> Awaitable[Grant | None]:
        return self._exposure.preview(programme_id, request)

    def end_outage(self, programme: Programme) -> None:
        self._exposure.end_outage(programme)
