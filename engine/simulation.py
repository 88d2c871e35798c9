"""Simulated spends: what a caller asks of the simulated network and what it gets back at once (spec 2.7,
3.4)."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.commands import Channel

Scenario = Literal[
    "partial_approval", "force_stip_timeout", "delegated_timeout", "cvv2_presented", "cavv_presented"
]
Operation = Literal["spend", "increment", "reversal", "clearing"]


class SpendRequest(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One accepted POST /v1/simulated-spends; ``simulation_id`` carries the card's shard."""

    simulation_id: str
    tenant_id: str
    card_id: str
    amount_minor: int
    currency: str
    mcc: str
    merchant_name: str
    merchant_country: str
    channel: Channel
    accepted_ms: int
    kind: Literal["purchase", "refund"] = "purchase"
    entry_mode: Literal["contactless", "chip", "magstripe", "manual"] | None = None
    scenario: Scenario | None = None
    approved_amount_minor: int | None = None
    """The terminal's cap on a partial approval."""
    mit: bool = False
    cvv2: str | None = None
    """Travels in the message only: never stored."""
    auth_value: str | None = None
    """Travels in the message only: never stored."""
    threeds_ref: str | None = None

    def __repr__(self) -> str:
        # The generated one would print CVV2 and authentication values into any log or traceback.
        return f"SpendRequest({self.simulation_id})"


class Acceptance(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The simulation is recorded. ``stan`` and ``rrn`` are both null when it was refused before any message
    was built."""

    simulation_id: str
    accepted_ms: int
    stan: str | None = None
    rrn: str | None = None
    network_txn_id: str | None = None
