"""The record of a simulation: its row, joined with its decision."""

from __future__ import annotations

from typing import Any, Final, Literal

import asyncpg
import msgspec

from api.http.fields import Channel, Id, Instant, MerchantMoneyView, MoneyView, shown_instant
from api.http.validation import View
from engine.currencies import merchant_view
from engine.decline import APPROVED, APPROVED_PARTIALLY, RULE_REASONS, VERIFIED
from engine.money import format_minor
from engine.simulation import SpendRequest

SELECT: Final = f"""
    SELECT r.id::text, r.parent_simulation_id::text, r.operation, r.state, r.card_id::text, r.request, r.stan,
           r.rrn, r.network_txn_id, r.accepted_at, r.sent_at, r.decided_at, r.failed_at, r.response_code,
           r.approval_code, r.approved_minor, r.authorization_id::text, r.failure,
           t.id::text AS transaction_id, t.hold_id::text,
           CASE r.operation WHEN 'spend' THEN t.decline_reason ELSE i.decision ->> 'reason' END
               AS decline_reason,
           CASE WHEN r.operation <> 'spend' THEN i.decision ->> 'decline_detail'
               WHEN t.decline_reason IN {RULE_REASONS} THEN (
                   SELECT j.decision::json ->> 'decline_detail' FROM journal j
                   WHERE j.actor_id = t.card_id AND j.seq = t.seq)
           END AS decline_detail
    FROM (SELECT *, false AS live FROM simulations) r
    LEFT JOIN transactions t ON t.tenant_id = r.tenant_id AND t.live = r.live AND t.id = r.authorization_id
    LEFT JOIN LATERAL (
        SELECT j.decision::json AS decision FROM journal j
        WHERE r.operation = 'increment' AND j.authorization_id = r.authorization_id AND j.kind = 'increment'
          AND j.command::json #>> '{{wire,stan}}' = r.stan AND j.command::json #>> '{{wire,rrn}}' = r.rrn) i
        ON true
"""
FIND: Final = SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2"
TABLE: Final = "(SELECT *, false AS live FROM simulations)"
"""Simulations for ``page``: all belong to the test mode."""
_request = msgspec.json.Decoder(SpendRequest).decode
APPROVALS: Final = frozenset({APPROVED, APPROVED_PARTIALLY, VERIFIED})


Operation = Literal["spend", "increment", "reversal", "clearing"]
State = Literal["accepted", "sent", "failed", "decided"]


class FailureView(View):
    """A failure of the simulator, before or after it built the message."""

    stage: Literal["pre_build", "post_build"]
    code: str
    detail: str


class SimulationView(View):
    """A simulation: a spend, or a follow-up of one (`parent_simulation_id`). If it stays `accepted` or
    `sent`, its outcome is unknown; a second spend may then be a duplicate."""

    simulation_id: Id
    parent_simulation_id: Id | None
    operation: Operation
    kind: Literal["purchase", "refund"]
    state: State
    card_id: Id
    amount: MoneyView
    merchant_amount: MerchantMoneyView | None
    """The amount in the currency of the merchant; null without a conversion."""
    approved_amount: MoneyView | None
    mcc: str
    merchant_name: str
    merchant_country: str
    merchant_id: str | None
    channel: Channel
    entry_mode: Literal["contactless", "chip", "magstripe", "manual"] | None
    scenario: str | None
    mit: bool
    stan: str | None
    rrn: str | None
    network_txn_id: str | None
    accepted_at: Instant
    sent_at: Instant | None
    decided_at: Instant | None
    failed_at: Instant | None
    decision: Literal["approved", "declined"] | None
    decline_reason: str | None
    decline_detail: str | None
    """The reason of the authorization rule that declined."""
    response_code: str | None
    approval_code: str | None
    authorization_id: Id | None
    transaction_id: Id | None
    hold_id: Id | None
    failure: FailureView | None


_DECIDED: Final = (
    "decline_reason",
    "decline_detail",
    "response_code",
    "approval_code",
    "authorization_id",
)


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``FIND``."""
    request = _request(row["request"])
    currency = request.currency
    return {
        "simulation_id": row["id"],
        "parent_simulation_id": row["parent_simulation_id"],
        "operation": row["operation"],
        "kind": request.kind,
        "state": row["state"],
        "card_id": row["card_id"],
        "amount": _money(request.amount_minor, currency),
        "merchant_amount": None
        if request.merchant_amount is None
        else merchant_view(request.merchant_amount),
        "approved_amount": _money(row["approved_minor"], currency),
        "mcc": request.mcc,
        "merchant_name": request.merchant_name,
        "merchant_country": request.merchant_country,
        "merchant_id": request.merchant_id,
        "channel": request.channel,
        "entry_mode": request.entry_mode,
        "scenario": request.scenario,
        "mit": request.mit,
        **{name: row[name] for name in ("stan", "rrn", "network_txn_id")},
        **{name: _instant(row[name]) for name in ("accepted_at", "sent_at", "decided_at", "failed_at")},
        "decision": _decision(row),
        **{name: row[name] for name in _DECIDED},
        **{name: row[name] for name in ("transaction_id", "hold_id")},
        "failure": msgspec.json.decode(row["failure"]) if row["failure"] else None,
    }


def _decision(row: asyncpg.Record) -> str | None:
    if row["state"] != "decided":
        return None
    return "approved" if row["response_code"] in APPROVALS else "declined"


def _money(amount_minor: int | None, currency: str) -> dict[str, str] | None:
    return None if amount_minor is None else {"amount": format_minor(amount_minor), "currency": currency}


def _instant(value: Any) -> str | None:
    return None if value is None else shown_instant(value)
