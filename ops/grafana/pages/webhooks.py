"""Dashboard: events, deliveries and endpoints."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.panels import RATE, Panel, latencies, lines, number, page


def webhooks() -> Dashboard:
    """Dashboard: events, deliveries and endpoints."""
    return page(
        "webhooks",
        "Stanchion: webhooks",
        "From committed events to receivers that have taken them.",
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
            what="Age of the oldest committed event that is not yet a delivery.",
        ),
        number(
            "Due deliveries",
            "max(stanchion_deliveries_due)",
            what="Deliveries whose time has come.",
        ),
        number(
            "Due, of one endpoint",
            "max(stanchion_deliveries_due_of_one_max)",
            what="Of the endpoint that has most of them.",
        ),
        number(
            "Delivered each second",
            f"sum(rate(stanchion_webhook_delivered_total[{RATE}]))",
            "ops",
            what="Receivers have answered 2xx.",
        ),
    ]


def _deliveries() -> list[Panel]:
    return [
        lines(
            "Attempts by ending",
            {"{{ending}}": f"sum by (ending) (rate(stanchion_webhook_attempts_total[{RATE}]))"},
            "ops",
            what="How attempts ended.",
            stacked=True,
        ),
        latencies("Duration of an attempt", "stanchion_webhook_seconds", what="At most 10 seconds."),
        lines(
            "Relay",
            {
                "events": f"sum(rate(stanchion_relay_events_total[{RATE}]))",
                "deliveries": f"sum(rate(stanchion_relay_deliveries_total[{RATE}]))",
                "failed batches": f"sum(rate(stanchion_relay_failures_total[{RATE}]))",
            },
            "ops",
            what="Committed events become one delivery for each endpoint that wants them.",
        ),
        lines(
            "Troubles",
            {
                "wake-ups dropped": f"sum(rate(stanchion_relay_wake_ups_dropped_total[{RATE}]))",
                "endings not written": f"sum(rate(stanchion_webhook_unrecorded_total[{RATE}]))",
                "failed claims": f"sum(rate(stanchion_webhook_claim_failures_total[{RATE}]))",
            },
            "ops",
            what="The sweep finds deliveries whose wake-up was lost.",
        ),
        lines(
            "Dispatchers",
            {
                "under way": "sum(stanchion_webhook_under_way)",
                "slow": "sum(stanchion_webhook_slow)",
                "endpoints behind": "sum(stanchion_webhook_endpoints_behind)",
            },
            what="Attempts in the air, and endpoints that wait for room.",
        ),
    ]
