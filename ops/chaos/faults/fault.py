"""One fault of ``make chaos``: a row of the report, the function that injects it, and the outcome of a round."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from engine.limits import AUTHORIZATION_DEADLINE_MS
from ops.chaos.rig import Rig

ANSWER_SECONDS_MAX: Final = AUTHORIZATION_DEADLINE_MS / 1000 + 1
"""The deadline of an authorization and one second."""
NORMAL_SECONDS_MAX: Final = 15.0
RESTART_SECONDS_MAX: Final = 60.0
"""A process of Python and Ray takes seconds to start, many of them on a machine that is busy; nothing waits
for it but its own work."""
IN_FLIGHT_SECONDS: Final = 0.15
"""What was committed when the fault began may still be told for so long."""


@dataclass
class Outcome:
    """What one round has shown."""

    figure: float
    """The worst that was measured, in the fault's own unit."""
    broken: list[str] = field(default_factory=list)
    rounds: int = 1
    """How often it was tried in one go."""

    def expect(self, holds: bool, what: str) -> None:
        """Note what does not hold."""
        if not holds:
            self.broken.append(what)


Inject = Callable[[Rig], Awaitable[Outcome]]


@dataclass(frozen=True)
class Fault:
    """One row of the table; ``limit`` is what its figure may be at most, or where ``least`` is set, at
    least."""

    promise: str
    name: str
    unit: str
    limit: float | None
    inject: Inject | None = None
    """Absent where nothing is done to an installation."""
    least: bool = False
