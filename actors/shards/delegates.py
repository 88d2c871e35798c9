"""The outside world of delegated decisions, put together: the programme's endpoint and its owner."""

from __future__ import annotations

from collections.abc import Awaitable

from actors.shards.endpoint import DecisionEndpoint
from actors.shards.exposure import Exposure
from engine.decision.delegation import EndpointResult, Question
from engine.programmes.programme import Programme
from engine.programmes.stand_in import Grant, StandInRequest


class OutsideWorld:
    """See ``actors.shards.consulting.Delegates``."""

    def __init__(self, endpoint: DecisionEndpoint, exposure: Exposure) -> None:
        self._endpoint = endpoint
        self._exposure = exposure

    def ask(self, programme: Programme, question: Question, timeout_ms: int) -> Awaitable[EndpointResult]:
        return self._endpoint.ask(programme, question, timeout_ms)

    def grant(self, programme_id: str, ask: StandInRequest) -> Awaitable[Grant | None]:
        return self._exposure.grant(programme_id, ask)

    def answered(self, programme: Programme) -> None:
        self._exposure.answered(programme)
