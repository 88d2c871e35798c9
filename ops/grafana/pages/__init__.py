"""The dashboards' panels. Tests run every query against a real Prometheus."""

from __future__ import annotations

from grafana_foundation_sdk.builders.dashboard import Dashboard

from ops.grafana.pages.authorizations import authorizations
from ops.grafana.pages.platform import platform
from ops.grafana.pages.stand_in import stand_in
from ops.grafana.pages.webhooks import webhooks


def pages() -> dict[str, Dashboard]:
    """All dashboards by the name of their file."""
    return {
        "authorizations": authorizations(),
        "stand-in": stand_in(),
        "webhooks": webhooks(),
        "platform": platform(),
    }
