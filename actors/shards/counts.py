"""What a shard host counts, in plain integers: on the decision path nothing may cost a microsecond."""

from __future__ import annotations

from actors.metrics import Figures, Histogram, Labels
from actors.shards.pending import Pending
from engine.decide import Decision


class HostCounts:
    """Since the host's start. Decisions count once they are durable."""

    def __init__(self) -> None:
        self._decisions: dict[Labels, float] = {}
        self._refusals: dict[Labels, float] = {}
        self._decision_seconds = Histogram()

    def confirmed(self, pending: Pending, now: float) -> None:
        """``pending`` is durable at ``now``, on the host's monotonic clock."""
        outcome = pending.outcome
        if isinstance(outcome, Decision):
            labels = (outcome.decision, outcome.reason or "", outcome.decided_by)
            self._decisions[labels] = self._decisions.get(labels, 0) + 1
            self._decision_seconds.observe(now - pending.entered)

    def refused(self, reason: str, commands: int = 1) -> None:
        """So many commands were turned away."""
        self._refusals[(reason,)] = self._refusals.get((reason,), 0) + commands

    def figures(self) -> Figures:
        """By metric name."""
        return {
            "stanchion_decisions": dict(self._decisions),
            "stanchion_refusals": dict(self._refusals),
            "stanchion_decision_seconds": self._decision_seconds.figure(),
        }
