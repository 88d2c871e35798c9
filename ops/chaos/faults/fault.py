"""The parts of a fault: its row in the report, the function that injects it, and the outcome of a round."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.rig import Rig

ANSWER_SECONDS_MAX: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 1
"""The deadline of an authorization plus one second."""
NORMAL_SECONDS_MAX: Final = 15.0
RESTART_SECONDS_MAX: Final = 60.0
"""Time for a Python process with Ray to start; on a busy machine that takes many seconds."""
IN_FLIGHT_SECONDS: Final = 0.15
"""Answers to operations committed before the fault may still arrive for this long."""


@dataclass
class Outcome:
    """The outcome of a round."""

    figure: float
    """The worst measurement, in the fault's unit."""
    broken: list[str] = field(default_factory=list)
    rounds: int = 1
    """The number of rounds, if several ran at once."""

    def expect(self, holds: bool, what: str) -> None:
        """Record ``what`` as broken unless ``holds``."""
        if not holds:
            self.broken.append(what)


Inject = Callable[[Rig], Awaitable[Outcome]]


@dataclass(frozen=True)
class Fault:
    """One row of the report. ``limit``: the maximum of its figure, or the minimum if ``least`` is set."""

    promise: str
    name: str
    unit: str
    limit: float | None
    inject: Inject | None = None
    """``None`` for rows without an injected fault."""
    least: bool = False
