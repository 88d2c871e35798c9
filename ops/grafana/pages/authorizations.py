"""Dashboard: authorizations and REST requests."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import RATE, Panel, latencies, lines, number, page


def authorizations() -> Dashboard:
    """Dashboard: authorizations and REST requests."""
    return page(
        "authorizations",
        "Stanchion: authorizations",
        "Decisions, why they are declined, and how long they take at each step.",
        {
            "Now": _now(),
            "Decisions": _decisions(),
            "Latency, from the outside in": _latency(),
            "The wire": _the_wire(),
        },
    )


def _now() -> list[Panel]:
    return [
        number(
            "Decisions each second",
            f"sum(rate(stanchion_decisions_total[{RATE}]))",
            "ops",
            what="Durable decisions on authorizations.",
        ),
        number(
            "Declined",
            "stanchion:declined:ratio5m",
            "percentunit",
            what="Share of the last five minutes' decisions.",
        ),
        number(
            "Answered too late",
            "stanchion:wire_expired:ratio5m",
            "percentunit",
            what="Share of requests on the wire that were answered with 91 at the deadline.",
        ),
        number(
            "Wire p99",
            "stanchion:wire_seconds:p99_5m",
            "s",
            what="99 of 100 answers take at most this long.",
        ),
    ]


def _decisions() -> list[Panel]:
    return [
        lines(
            "By outcome",
            {"{{outcome}}": f"sum by (outcome) (rate(stanchion_decisions_total[{RATE}]))"},
            "ops",
            what="Approvals (partial ones included) and declines.",
            stacked=True,
        ),
        lines(
            "Declines by reason",
            {
                "{{reason}}": "sum by (reason) "
                f'(rate(stanchion_decisions_total{{outcome="declined"}}[{RATE}]))'
            },
            "ops",
            what="Each decline has the reason of the first rule that failed.",
            stacked=True,
        ),
    ]


def _latency() -> list[Panel]:
    return [
        latencies(
            "Wire",
            "stanchion_wire_seconds",
            what="From a request's arrival at the network edge to its answer.",
        ),
        latencies(
            "Decision",
            "stanchion_decision_seconds",
            what="From a command's arrival at the shard host to its durable decision.",
        ),
        latencies("Commit", "stanchion_commit_seconds", what="Duration of a group commit."),
        lines(
            "Commands in a commit",
            {
                "mean": f"sum(rate(stanchion_commit_batch_commands_sum[{RATE}]))"
                f" / sum(rate(stanchion_commit_batch_commands_count[{RATE}]))"
            },
            what="Grows with the load: a commit contains all commands decided during the previous one.",
        ),
    ]


def _the_wire() -> list[Panel]:
    return [
        lines(
            "Requests",
            {
                "received": f"sum(rate(stanchion_wire_requests_total[{RATE}]))",
                "answered by owners": f"sum(rate(stanchion_wire_answered_total[{RATE}]))",
                "answered with 91": f"sum(rate(stanchion_wire_expired_total[{RATE}]))",
                "refused at once": f"sum(rate(stanchion_wire_shed_total[{RATE}]))",
                "malformed": f"sum(rate(stanchion_wire_malformed_total[{RATE}]))",
            },
            "ops",
            what="ISO 8583 messages at the network edge.",
        ),
        lines(
            "Late approvals, and their reversal",
            {
                "late approvals": f"sum(increase(stanchion_wire_late_approvals_total[{RATE}]))",
                "reversed": f"sum(increase(stanchion_wire_undone_total[{RATE}]))",
                "open reversals": "sum(stanchion_wire_undoing)",
                "connections": "sum(stanchion_wire_connections)",
            },
            what="The edge reverses approvals that became durable after it had answered 91.",
        ),
    ]
