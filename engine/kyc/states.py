"""The states of a case as a table; a move that is not listed is illegal (``ops/docs/KYC.md``)."""

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
"""Legal moves. ``pending`` to itself: inputs were accepted and others are still awaited."""

COMPLETED: Final = frozenset({"passed", "failed", "expired"})
"""States with a time of completion."""
EXPIRING: Final = frozenset({"pending", "passed"})
"""States that expire."""


def cardholder_state(newest_first: Sequence[str]) -> str | None:
    """The ``kyc_state`` of a cardholder whose checks have these states.

    The newest verdict counts: a cardholder has passed while the newest check with a verdict has passed, also
    when later checks are open or expired. Otherwise the state is that of the newest check.
    """
    verdict = next((state for state in newest_first if state in ("passed", "failed")), None)
    return verdict if verdict == "passed" else next(iter(newest_first), None)
