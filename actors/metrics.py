"""The names of all metrics, and how processes count them.

Processes count in plain integers, and the decision path does not depend on Prometheus. At a scrape each
process returns its figures by name, and the exporter adds a ``process`` label (``actors.exposition``). Labels
never hold ids of customers' objects.
"""

from __future__ import annotations

import os
import resource
import time
from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, TypeAlias


class Distribution(NamedTuple):
    """A histogram at one instant: the number of observations in each bucket (the last is above every bound),
    and the sum of all observations."""

    counts: tuple[int, ...]
    total: float


Labels: TypeAlias = tuple[str, ...]
"""Values of a metric's labels, in the order of ``LABELS``."""
Figure: TypeAlias = float | Distribution | dict[Labels, float] | dict[Labels, Distribution]
Figures: TypeAlias = dict[str, Figure]

METRICS: Final[dict[str, tuple[Literal["counter", "gauge", "histogram"], str]]] = {
    "stanchion_process_id": ("gauge", "The process's id on its machine."),
    "stanchion_process_serving": ("gauge", "1 while the process answers and its role has started, else 0."),
    "stanchion_ready": ("gauge", "1 while the part of the installation answers its readiness check, else 0."),
    "stanchion_process_cpu_seconds": ("counter", "CPU time of the process, user and system, in seconds."),
    "stanchion_process_resident_bytes_max": ("gauge", "Largest resident memory so far, in bytes."),
    "stanchion_loop_lag_seconds": (
        "histogram",
        "Delay of a timer in the process's event loop, measured once a second.",
    ),
    "stanchion_commands": ("counter", "Commands decided by the shard host."),
    "stanchion_decisions": (
        "counter",
        "Durable decisions on authorizations, by outcome, decline reason, and decider.",
    ),
    "stanchion_decision_seconds": (
        "histogram",
        "From an authorization's arrival at the shard host to its durable decision.",
    ),
    "stanchion_programme_answers": (
        "counter",
        "Calls to decision endpoints of programmes, by answer; a late answer was counted as unusable before.",
    ),
    "stanchion_stand_ins": (
        "counter",
        "Durable decisions in stand-in, by the rule that fired and the trigger.",
    ),
    "stanchion_stand_in_exposure_minor": (
        "counter",
        "Exposure created by approvals in stand-in, in minor units, by currency.",
    ),
    "stanchion_outages_begun": ("counter", "Outages of decision endpoints that have begun."),
    "stanchion_outages_ended": ("counter", "Outages of decision endpoints that have ended."),
    "stanchion_outages_open": ("gauge", "Open outages of decision endpoints."),
    "stanchion_outage_exposure_minor": (
        "gauge",
        "Used part of the budgets of open outages, in minor units, by currency.",
    ),
    "stanchion_refusals": ("counter", "Commands that the shard host refused, by reason."),
    "stanchion_commits": ("counter", "Transactions committed by the shard host."),
    "stanchion_commit_seconds": ("histogram", "Duration of a group commit, failed ones included."),
    "stanchion_commit_batch_commands": ("histogram", "Commands made durable by one group commit."),
    "stanchion_commit_failures": ("counter", "Group commits that were refused or had an unknown outcome."),
    "stanchion_journal_rows": ("counter", "Rows added to the journal by the shard host."),
    "stanchion_journal_bytes": ("gauge", "Size of the journal with its indexes."),
    "stanchion_database_bytes": ("gauge", "Size of the whole database."),
    "stanchion_data_loss_possible": (
        "gauge",
        "1 while the loss of PostgreSQL's primary can lose acknowledged decisions, else 0.",
    ),
    "stanchion_undurable_commands": ("gauge", "Commands that are decided and not yet durable."),
    "stanchion_unreadable_rows": (
        "counter",
        "Stored rows that the shard host could not decode for a command (answered with 96).",
    ),
    "stanchion_active_cards": ("gauge", "Cards in the memory of the shard host."),
    "stanchion_clock_refused": (
        "gauge",
        "1 while the shard host makes no decisions because the database's clock is out of bounds, else 0.",
    ),
    "stanchion_shards": ("gauge", "Shards that the host owns."),
    "stanchion_coordinator_leads": ("gauge", "1 if this coordinator leads, 0 if it waits."),
    "stanchion_role_active": ("gauge", "1 if this relay or simulated network is active, 0 if it waits."),
    "stanchion_takeovers": ("counter", "Shard hosts that were lost and replaced as owners."),
    "stanchion_nodes": ("gauge", "Nodes of the cluster that have shard hosts."),
    "stanchion_shards_unowned": ("gauge", "Shards without a living owner."),
    "stanchion_wire_connections": ("gauge", "Open ISO 8583 connections."),
    "stanchion_wire_turned_away": (
        "counter",
        "New or idle ISO 8583 connections closed because there were too many.",
    ),
    "stanchion_wire_cut": (
        "counter",
        "ISO 8583 connections closed because the peer sent or read too slowly.",
    ),
    "stanchion_wire_idle": ("counter", "ISO 8583 connections closed after too long without a message."),
    "stanchion_wire_unknown_cards": ("counter", "ISO 8583 messages with unknown card numbers."),
    "stanchion_wire_wrong_values": ("counter", "Authorizations with a wrong CVV2, CVV1 or expiry."),
    "stanchion_wire_probes_limited": (
        "counter",
        "Unknown card numbers and wrong values beyond the limit of their sender.",
    ),
    "stanchion_wire_requests": ("counter", "ISO 8583 requests received."),
    "stanchion_wire_malformed": ("counter", "Frames that could not be decoded."),
    "stanchion_wire_shed": ("counter", "Authorizations refused at once under overload."),
    "stanchion_wire_answered": ("counter", "Authorizations answered by an owner in time."),
    "stanchion_wire_seconds": (
        "histogram",
        "From an ISO 8583 request's arrival at the network edge to its answer, answers with 91 included.",
    ),
    "stanchion_wire_expired": ("counter", "Authorizations answered with 91 at the deadline."),
    "stanchion_wire_late_approvals": ("counter", "Approvals that came after the answer 91."),
    "stanchion_wire_undone": (
        "counter",
        "Certain or possible approvals that the edge reversed.",
    ),
    "stanchion_wire_undoing": ("gauge", "Reversals of the edge that no owner has answered yet."),
    "stanchion_link_up": ("gauge", "1 while messages of the link can arrive and be decided, else 0."),
    "stanchion_link_signed_off": ("gauge", "1 while an operator has signed the link off, else 0."),
    "stanchion_link_connections": ("gauge", "Open connections of the link."),
    "stanchion_link_signed_on": ("gauge", "Connections of the link on which one side has signed on."),
    "stanchion_link_in_flight": ("gauge", "Requests of the link without an answer."),
    "stanchion_link_received_bytes": ("counter", "Bytes received on the link."),
    "stanchion_link_answers": ("counter", "Answers sent on the link, by MTI and response code (DE39)."),
    "stanchion_link_refused": (
        "counter",
        "Messages and connections that the link may not send or open, by reason.",
    ),
    "stanchion_network_cleared": ("counter", "Sales that the simulated network presented automatically."),
    "stanchion_network_settled": ("counter", "Failed simulations that were decided from the journal."),
    "stanchion_network_lost_moves": ("counter", "Records that the simulated network could not write."),
    "stanchion_rest_requests": ("counter", "REST requests answered, by operation and status."),
    "stanchion_rest_seconds": (
        "histogram",
        "From a REST request's headers to the end of its answer, by operation.",
    ),
    "stanchion_pool_wait_seconds": ("histogram", "Wait of a REST request for a database connection."),
    "stanchion_open_commands": ("gauge", "Commands in the process's router without a reply."),
    "stanchion_relay_events": ("counter", "Committed events that the relay has processed."),
    "stanchion_relay_deliveries": ("counter", "Deliveries that the relay has written."),
    "stanchion_relay_failures": ("counter", "Batches of the relay that failed and were retried."),
    "stanchion_relay_lag_seconds": (
        "gauge",
        "Age of the oldest committed event that the relay has not processed, in seconds.",
    ),
    "stanchion_rows_expired": (
        "counter",
        "Events, deliveries, stored answers, tokens and tombstones deleted after their retention period.",
    ),
    "stanchion_relay_wake_ups_dropped": ("counter", "Wake-ups that Redis did not accept in time."),
    "stanchion_deliveries_due": ("gauge", "Due deliveries; counting stops at 100,000."),
    "stanchion_deliveries_due_of_one_max": ("gauge", "Due deliveries of the endpoint with the most."),
    "stanchion_webhook_attempts": ("counter", "Delivery attempts that have ended, by result."),
    "stanchion_webhook_seconds": ("histogram", "Duration of a delivery attempt."),
    "stanchion_webhook_delivered": ("counter", "Deliveries that a receiver accepted."),
    "stanchion_webhook_under_way": ("gauge", "Open delivery attempts of the dispatcher."),
    "stanchion_webhook_slow": ("gauge", "Open delivery attempts that have become slow."),
    "stanchion_webhook_endpoints_behind": (
        "gauge",
        "Endpoints whose due deliveries wait for a slot in the dispatcher.",
    ),
    "stanchion_webhook_unrecorded": ("counter", "Delivery attempts whose result could not be recorded."),
    "stanchion_webhook_claim_failures": ("counter", "Claims of the dispatcher that failed."),
}


LABELS: Final[dict[str, tuple[str, ...]]] = {
    "stanchion_ready": ("part",),
    "stanchion_decisions": ("outcome", "reason", "decided_by"),
    "stanchion_programme_answers": ("answer",),
    "stanchion_stand_ins": ("rule", "trigger"),
    "stanchion_stand_in_exposure_minor": ("currency",),
    "stanchion_outage_exposure_minor": ("currency",),
    "stanchion_refusals": ("reason",),
    "stanchion_link_up": ("link",),
    "stanchion_link_signed_off": ("link",),
    "stanchion_link_connections": ("link",),
    "stanchion_link_signed_on": ("link",),
    "stanchion_link_in_flight": ("link",),
    "stanchion_link_received_bytes": ("link",),
    "stanchion_link_answers": ("link", "mti", "response_code"),
    "stanchion_link_refused": ("link", "reason"),
    "stanchion_rest_requests": ("operation", "status"),
    "stanchion_rest_seconds": ("operation",),
    "stanchion_webhook_attempts": ("ending",),
}
"""The labels of a metric besides ``process``; their values come from closed lists."""

SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
BUCKETS: Final[dict[str, tuple[float, ...]]] = {
    "stanchion_commit_batch_commands": (1, 2, 4, 8, 16, 32, 64, 128, 256)
}
"""Upper bounds of histograms that do not use ``SECONDS``."""


class Histogram:
    """Counts observations by bucket, in a quarter of a microsecond each."""

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Count ``value`` into the first bucket whose bound it does not exceed."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    def figure(self) -> Distribution:
        """The current state."""
        return Distribution(tuple(self._counts), self._total)


def process_figures() -> Figures:
    """Figures that every process has."""
    return {
        "stanchion_process_id": os.getpid(),
        "stanchion_process_cpu_seconds": time.process_time(),
        "stanchion_process_resident_bytes_max": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
