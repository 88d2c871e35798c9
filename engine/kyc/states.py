"""The states of a case as a table; an absent pair is the illegal move (spec 3.1; contract, section 10)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, get_args

State = Literal["pending", "in_review", "passed", "failed", "expired"]

STATES: Final[tuple[State, ...]] = get_args(State)

TRANSITIONS: Final[dict[State, frozenset[State]]] = {
    "pending": frozenset({"pending", "in_review", "passed", "failed", "expired"}),
    "in_review": frozenset({"passed", "failed", "pending"}),
    "passed": frozenset({"expired"}),
    "failed": frozenset(),
    "expired": frozenset(),
}
"""From each state to which. ``pending`` to itself: accepted, and something is still awaited."""

COMPLETED: Final = frozenset({"passed", "failed", "expired"})
"""States with a time of completion."""
EXPIRING: Final = frozenset({"pending", "passed"})
"""States that end by themselves."""


def cardholder_state(newest_first: Sequence[str]) -> str | None:
    """The ``kyc_state`` of a cardholder whose checks have these states.

    The newest verdict counts: while the newest check that passed or failed has passed, the cardholder has
    passed, whatever has been begun or has run out since. Otherwise it is the state of the newest check.
    """
    verdict = next((state for state in newest_first if state in ("passed", "failed")), None)
    return verdict if verdict == "passed" else next(iter(newest_first), None)
