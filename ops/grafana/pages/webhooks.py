"""Dashboard: events, deliveries and endpoints."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import RATE, Panel, latencies, lines, number, page


def webhooks() -> Dashboard:
    """Dashboard: events, deliveries and endpoints."""
    return page(
        "webhooks",
        "Stanchion: webhooks",
        "From committed events to accepted deliveries.",
        {
            "Now": _now(),
            "Deliveries": _deliveries(),
        },
    )


def _now() -> list[Panel]:
    return [
        number(
            "Relay lag",
            "max(stanchion_relay_lag_seconds)",
            "s",
            what="Age of the oldest committed event without deliveries.",
        ),
        number(
            "Due deliveries",
            "max(stanchion_deliveries_due)",
            what="Pending deliveries whose next attempt is due.",
        ),
        number(
            "Due deliveries of one endpoint",
            "max(stanchion_deliveries_due_of_one_max)",
            what="The largest number of due deliveries of any endpoint.",
        ),
        number(
            "Delivered each second",
            f"sum(rate(stanchion_webhook_delivered_total[{RATE}]))",
            "ops",
            what="Deliveries that receivers answered with 2xx.",
        ),
    ]


def _deliveries() -> list[Panel]:
    return [
        lines(
            "Attempts by result",
            {"{{ending}}": f"sum by (ending) (rate(stanchion_webhook_attempts_total[{RATE}]))"},
            "ops",
            what="Results of delivery attempts: the class of the answer's status, or the error.",
            stacked=True,
        ),
        latencies(
            "Duration of an attempt",
            "stanchion_webhook_seconds",
            what="From the look-up of the receiver's name to the end of its answer, at most 10 s.",
        ),
        lines(
            "Relay",
            {
                "events": f"sum(rate(stanchion_relay_events_total[{RATE}]))",
                "deliveries": f"sum(rate(stanchion_relay_deliveries_total[{RATE}]))",
                "failed batches": f"sum(rate(stanchion_relay_failures_total[{RATE}]))",
            },
            "ops",
            what="The relay writes one delivery of each event for each subscribed endpoint.",
        ),
        lines(
            "Failures",
            {
                "wake-ups dropped": f"sum(rate(stanchion_relay_wake_ups_dropped_total[{RATE}]))",
                "results not recorded": f"sum(rate(stanchion_webhook_unrecorded_total[{RATE}]))",
                "failed claims": f"sum(rate(stanchion_webhook_claim_failures_total[{RATE}]))",
            },
            "ops",
            what="The sweep finds deliveries whose wake-up was dropped.",
        ),
        lines(
            "Dispatchers",
            {
                "open attempts": "sum(stanchion_webhook_under_way)",
                "slow attempts": "sum(stanchion_webhook_slow)",
                "endpoints behind": "sum(stanchion_webhook_endpoints_behind)",
            },
            what="Open attempts, and endpoints whose due deliveries wait for a slot.",
        ),
    ]
