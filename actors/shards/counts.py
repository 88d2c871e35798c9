"""A shard host's counters. They are plain integers, because counting must not cost the decision path a
microsecond."""

from __future__ import annotations

from actors.metrics import Figures, Histogram, Labels
from actors.shards.pending import Pending
from engine.commands import Authorize, Command, EndOutage, GrantStandIns
from engine.decision.decide import Decision
from engine.programmes.stand_in import StandIn


class HostCounts:
    """Counts since the host's start. Decisions are counted when they are durable."""

    def __init__(self) -> None:
        self._decisions: dict[Labels, float] = {}
        self._refusals: dict[Labels, float] = {}
        self._decision_seconds = Histogram()
        self._stand_ins: dict[Labels, float] = {}
        self._exposure_minor: dict[Labels, float] = {}
        self._outages_begun = 0
        self._outages_ended = 0

    def confirmed(self, pending: Pending, now: float) -> None:
        """Count a command that is durable at ``now``, on the host's monotonic clock."""
        outcome = pending.outcome
        if isinstance(outcome, Decision):
            labels = (outcome.decision, outcome.reason or "", outcome.decided_by)
            self._decisions[labels] = self._decisions.get(labels, 0) + 1
            self._decision_seconds.observe(now - pending.entered)
            if outcome.stand_in is not None:
                self._stood_in(pending.command, outcome.stand_in)
        elif pending.broadcast:
            # These commands are announced to hosts only when an outage has started or ended.
            self._outages_begun += isinstance(pending.command, GrantStandIns)
            self._outages_ended += isinstance(pending.command, EndOutage)

    def refused(self, reason: str, commands: int = 1) -> None:
        """Count refused commands."""
        self._refusals[(reason,)] = self._refusals.get((reason,), 0) + commands

    def figures(self) -> Figures:
        """The counts by metric name."""
        return {
            "stanchion_decisions": dict(self._decisions),
            "stanchion_refusals": dict(self._refusals),
            "stanchion_decision_seconds": self._decision_seconds.figure(),
            "stanchion_stand_ins": dict(self._stand_ins),
            "stanchion_stand_in_exposure_minor": dict(self._exposure_minor),
            "stanchion_outages_begun": self._outages_begun,
            "stanchion_outages_ended": self._outages_ended,
        }

    def _stood_in(self, command: Command, stand_in: StandIn) -> None:
        labels = (stand_in.rule, stand_in.trigger)
        self._stand_ins[labels] = self._stand_ins.get(labels, 0) + 1
        if stand_in.exposure_minor and isinstance(command, Authorize):
            currency = (command.currency,)
            self._exposure_minor[currency] = self._exposure_minor.get(currency, 0) + stand_in.exposure_minor
