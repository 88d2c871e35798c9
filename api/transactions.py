"""Transactions: what became of each authorization, refund and force post, with the decision explained
(contract, sections 5, 7).

The row says where a transaction stands; the journal says what was asked, what was decided, and why.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import asyncpg
import msgspec
from starlette.responses import Response

from api.database import fetch_row
from api.fields import Channel, Id, Instant, ShownAmount, shown_instant
from api.operations import Call, Empty, Family, json_response
from api.pagination import WindowQuery, page, page_model
from api.problems import not_found
from api.validation import View
from engine.commands import Authorize
from engine.decide import Decision, decision_view
from engine.money import format_minor

family = Family("Transactions")
_command = msgspec.json.Decoder(Authorize).decode
_decision = msgspec.json.Decoder(Decision).decode

_SELECT: Final = """
    SELECT r.id::text, r.card_id::text, r.cardholder_id::text, r.programme_id::text, r.kind, r.status,
           r.hold_id::text, r.currency, r.requested_minor, r.approved_minor, r.held_minor, r.cleared_minor,
           r.reversed_minor, r.created_at, r.updated_at, c.network, j.command, j.decision
    FROM transactions r
    JOIN cards c ON c.id = r.card_id
    JOIN journal j ON j.actor_id = r.card_id AND j.seq = r.seq
"""
_FIND: Final = _SELECT + " WHERE r.id = $1::uuid AND r.tenant_id = $2 AND r.live = $3"

Kind = Literal["purchase", "refund", "force_post", "verification"]
Status = Literal["pending", "partially_cleared", "cleared", "reversed", "lapsed", "declined", "posted"]


class TransactionsQuery(WindowQuery):
    """Filters of the list."""

    card_id: Id | None = None
    cardholder_id: Id | None = None
    programme_id: Id | None = None
    status: Status | None = None
    kind: Kind | None = None


class StepView(View):
    """One rule of a decision: what it saw before the decision, and what it held that against."""

    rule: str
    outcome: Literal["pass", "fail", "skip"]
    observed: str | None
    limit: str | None


class MerchantView(View):
    """Who asked for the money."""

    name: str
    country: str


class NetworkView(View):
    """How the network names the transaction (ISO 8583 DE11, DE37, DE48 tag 04, DE38, DE39)."""

    name: Literal["visa", "mastercard"]
    stan: str
    rrn: str
    network_txn_id: str | None
    approval_code: str | None
    response_code: str


class RiskView(View):
    """The risk score, 0 to 100, and what follows from it."""

    score: int
    action: Literal["allow", "review", "block"]


class HappenedView(View):
    """One thing that happened to the transaction."""

    type: str
    amount: ShownAmount
    occurred_at: Instant


class TransactionView(View):
    """A transaction: one for each authorization, refund and force post."""

    id: Id
    kind: Kind
    status: Status
    card_id: Id
    cardholder_id: Id
    programme_id: Id
    authorization_id: Id
    hold_id: Id | None
    currency: str
    requested_amount: ShownAmount
    approved_amount: ShownAmount
    held_amount: ShownAmount
    cleared_amount: ShownAmount
    reversed_amount: ShownAmount
    mcc: str
    merchant: MerchantView
    channel: Channel
    entry_mode: str | None
    network: NetworkView
    decision: Literal["approved", "declined"]
    decline_reason: str | None
    decided_by: Literal["platform", "programme", "stand_in"]
    risk: RiskView
    trace: list[StepView]
    events: list[HappenedView]
    created_at: Instant
    updated_at: Instant


@family.operation(
    "GET",
    "/v1/transactions",
    "list_transactions",
    takes=TransactionsQuery,
    gives={200: page_model("Transactions", TransactionView)},
    problems=("invalid-cursor",),
)
async def list_transactions(call: Call[TransactionsQuery]) -> Response:
    """List transactions, newest first."""
    given = call.given
    filters = {
        "r.card_id = ?::uuid": given.card_id,
        "r.cardholder_id = ?::uuid": given.cardholder_id,
        "r.programme_id = ?::uuid": given.programme_id,
        "r.status = ?": given.status,
        "r.kind = ?": given.kind,
        **given.window,
    }
    return await page(
        call.services, call.caller, given, table="transactions", select=_SELECT, filters=filters, show=show
    )


@family.operation(
    "GET", "/v1/transactions/{id}", "get_transaction", gives={200: TransactionView}, problems=("not-found",)
)
async def get_transaction(call: Call[Empty]) -> Response:
    """Get a transaction, with every rule that its decision evaluated."""
    caller = call.caller
    row = await fetch_row(call.services.pool, _FIND, call.path_id(), caller.tenant_id, caller.live)
    if row is None:
        raise not_found()
    return json_response(200, show(row))


def show(row: asyncpg.Record) -> dict[str, Any]:
    """The public representation of a row of ``_SELECT``."""
    asked, decided = _command(row["command"]), _decision(row["decision"])
    created_at = shown_instant(row["created_at"])
    return {
        **{name: row[name] for name in ("id", "kind", "status", "card_id", "cardholder_id", "programme_id")},
        "authorization_id": row["id"],
        "hold_id": row["hold_id"],
        "currency": row["currency"],
        **{f"{name}_amount": format_minor(row[f"{name}_minor"]) for name in _AMOUNTS},
        "mcc": asked.mcc,
        "merchant": {"name": asked.merchant_name, "country": asked.merchant_country},
        "channel": asked.channel,
        "entry_mode": asked.entry_mode,
        "network": _network(row["network"], asked, decided),
        **decision_view(decided),
        "events": [
            {"type": asked_type(asked), "amount": format_minor(asked.amount_minor), "occurred_at": created_at}
        ],
        "created_at": created_at,
        "updated_at": shown_instant(row["updated_at"]),
    }


_AMOUNTS: Final = ("requested", "approved", "held", "cleared", "reversed")


def asked_type(asked: Authorize) -> str:
    """The name of a transaction's first event."""
    return "refund" if asked.kind == "refund" else "authorization"


def _network(name: str, asked: Authorize, decided: Decision) -> dict[str, Any]:
    return {
        "name": name,
        "stan": asked.wire.stan,
        "rrn": asked.wire.rrn,
        "network_txn_id": asked.wire.network_txn_id,
        "approval_code": decided.approval_code,
        "response_code": decided.response_code,
    }
