"""Load shapes as pure functions: the share of users that run, by the elapsed share of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

STEPS: Final = 5
SPIKE_FROM, SPIKE_TO = 0.4, 0.6
SPIKE_QUIET: Final = 0.2
SOAK_RAMP: Final = 0.02


def steady(_passed: float) -> float:
    """All users from the beginning to the end."""
    return 1.0


def step(passed: float) -> float:
    """Adds a fifth of the users with each fifth of the run, to find the load at which latency rises."""
    return (int(passed * STEPS) + 1) / STEPS


def spike(passed: float) -> float:
    """A fifth of the users, with all of them for a while in the middle, to test recovery."""
    return 1.0 if SPIKE_FROM <= passed < SPIKE_TO else SPIKE_QUIET


def soak(passed: float) -> float:
    """A short ramp, then all users to the end; with a long run, it shows resources that grow."""
    return min(1.0, passed / SOAK_RAMP) if passed < SOAK_RAMP else 1.0


SHAPES: Final[Mapping[str, Callable[[float], float]]] = {
    "steady": steady,
    "step": step,
    "spike": spike,
    "soak": soak,
}


def users_at(shape: str, elapsed: float, seconds: float, users_max: int) -> int | None:
    """The number of users after ``elapsed`` of ``seconds``; ``None`` when the run is over."""
    if elapsed >= seconds:
        return None
    return max(1, round(SHAPES[shape](elapsed / seconds) * users_max))
