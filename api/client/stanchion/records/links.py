"""Links to networks and processors."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict


class Link(TypedDict):
    """A link to a network or processor at one edge; its figures are those of all tenants."""

    name: str
    edge: str
    mode: Literal["test", "live"]
    direction: Literal["listen", "connect"]
    tls: bool
    state: Literal["up", "down", "draining", "signed_off"]
    connections: int
    connections_wanted: int | None
    signed_on: int
    sign_on: Literal["required", "optional", "none"]
    in_flight: int
    answers_per_minute: dict[str, int]
    refused: dict[str, int]
    last_error: str | None
    last_error_at: str | None
    reported_at: str
