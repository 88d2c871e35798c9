"""Transactions and their explanations."""

from __future__ import annotations

from typing import Any

from stanchion.compat import TypedDict
from stanchion.records.common import Decision, Money


class Merchant(TypedDict):
    """The merchant of a transaction; ``id`` is the acquirer's."""

    id: str | None
    name: str
    country: str


class Network(TypedDict):
    """The network's identifiers of a transaction."""

    name: str
    acquirer_id: str
    stan: str
    rrn: str
    network_txn_id: str | None
    approval_code: str | None
    response_code: str


class Risk(TypedDict):
    """The risk score (0-100) and the resulting action."""

    score: int
    action: str


class RuleResult(TypedDict):
    """One rule of a decision: its outcome, the observed value and the limit."""

    rule: str
    outcome: str
    observed: str | None
    limit: str | None


class TransactionEvent(TypedDict):
    """One entry in the history of a transaction."""

    type: str
    amount: str
    occurred_at: str
    remark: str


class Transaction(TypedDict):
    """An authorization, refund or force post, with its history."""

    id: str
    kind: str
    status: str
    card_id: str
    cardholder_id: str
    programme_id: str
    authorization_id: str
    hold_id: str | None
    currency: str
    requested_amount: str
    merchant_amount: Money
    conversion_rate: str | None
    approved_amount: str
    held_amount: str
    cleared_amount: str
    reversed_amount: str
    mcc: str
    merchant: Merchant
    channel: str | None
    entry_mode: str | None
    network: Network
    decision: Decision | None
    decline_reason: str | None
    decline_detail: str | None
    decided_by: str | None
    risk: Risk | None
    trace: list[RuleResult]
    events: list[TransactionEvent]
    created_at: str
    updated_at: str
    metadata: dict[str, str]


class Replay(TypedDict):
    """A decision made again from its stored inputs."""

    identical: bool
    recorded: dict[str, Any]
    recomputed: dict[str, Any]
