"""Simulations of the test network."""

from __future__ import annotations

from stanchion.compat import TypedDict
from stanchion.records.common import Decision, Money


class Acceptance(TypedDict):
    """An accepted simulation; ``stan`` is null if no message could be built."""

    simulation_id: str
    accepted_at: str
    stan: str | None
    rrn: str | None
    network_txn_id: str


class Failure(TypedDict):
    """The cause of a failed simulation."""

    stage: str
    code: str
    detail: str


class Simulation(TypedDict):
    """A simulated spend, increment, reversal or clearing."""

    simulation_id: str
    parent_simulation_id: str | None
    operation: str
    kind: str
    state: str
    card_id: str
    amount: Money
    merchant_amount: Money | None
    approved_amount: Money | None
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None
    channel: str
    entry_mode: str | None
    scenario: str | None
    mit: bool
    stan: str | None
    rrn: str | None
    network_txn_id: str | None
    accepted_at: str
    sent_at: str | None
    decided_at: str | None
    failed_at: str | None
    decision: Decision | None
    decline_reason: str | None
    decline_detail: str | None
    response_code: str | None
    approval_code: str | None
    authorization_id: str | None
    transaction_id: str | None
    hold_id: str | None
    failure: Failure | None


class FollowUp(TypedDict):
    """An accepted increment, reversal or clearing."""

    simulation_id: str
    parent_simulation_id: str
    accepted_at: str
    stan: str | None
    rrn: str | None
    network_txn_id: str | None


class ExpiredHold(TypedDict):
    """A hold that the client let lapse early."""

    simulation_id: str
    authorization_id: str
    status: str
