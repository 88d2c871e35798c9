"""States of links."""

from __future__ import annotations

from typing import Any

from actors.network.links.status import LinkStatus


def status(**changes: Any) -> LinkStatus:
    """A link that listens and is up."""
    values: dict[str, Any] = {
        "name": "acme",
        "edge": "edge",
        "direction": "listen",
        "mode": "live",
        "address": "192.0.2.1:8600",
        "tls": True,
        "state": "up",
        "connections": 2,
        "connections_wanted": None,
        "signed_on": 2,
        "sign_on": "required",
        "in_flight": 1,
        "per_minute": {"0110 00": 57, "0110 51": 3},
        "answers": {"0110 00": 1_000, "0110 51": 31},
        "refused": {},
        "bytes_received": 4_096,
        "last_error": None,
        "last_error_ms": 0,
    }
    return LinkStatus(**values | changes)
