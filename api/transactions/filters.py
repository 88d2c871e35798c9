"""Filters of the list of transactions, and the index that serves each of them.

One filter drives a page: the first in the order of ``plan_of`` that is given. It has an index that ends with
the id, so its rows come newest first. The other filters apply to these rows, of which a page looks at a
bounded number.

Four filters name several index ranges: a cardholder has several cards, a programme several category codes, a
category code several programmes, and a decline several reasons. ``_merged`` reads the newest rows of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal

from pydantic import StringConstraints

from api.access.tokens import Caller
from api.database.pool import Connection, connected
from api.http.fields import TEXT_PATTERN, Amount, Id, Mcc, Text100, example
from api.operations.call import Call
from api.operations.pagination import OF_TENANT, Bounds, Candidates, IndexRange, WindowQuery
from api.transactions.views import Kind, Status
from engine.decline import REASONS
from engine.limits import PAGE_KEYS_MAX
from engine.money import parse_amount

Rrn = Annotated[
    str, StringConstraints(min_length=1, max_length=12, pattern=TEXT_PATTERN), example("632620000008")
]
NetworkTxnId = Annotated[
    str, StringConstraints(min_length=1, max_length=64, pattern=TEXT_PATTERN), example("SN0000000000004")
]
DeclineReason = Literal[REASONS]  # type: ignore[valid-type]


class TransactionsQuery(WindowQuery):
    """Filters of the list."""

    card_id: Id | None = None
    cardholder_id: Id | None = None
    programme_id: Id | None = None
    status: Status | None = None
    kind: Kind | None = None
    decision: Literal["approved", "declined"] | None = None
    decline_reason: DeclineReason | None = None
    mcc: Mcc | None = None
    """Merchant category code."""
    rrn: Rrn | None = None
    """Retrieval reference number (ISO 8583 DE37)."""
    network_txn_id: NetworkTxnId | None = None
    merchant: Annotated[Text100, example("corner shop")] | None = None
    """A part of the merchant's name; upper and lower case do not differ."""
    amount: Amount | None = None
    """The amount requested, in the card's currency."""


@dataclass
class Plan:
    """Arguments of ``page``: the driving filter as ``driving``, ``filters`` or ``candidates``, and all other
    filters."""

    driving: IndexRange | None = None
    filters: dict[str, Any] = field(default_factory=dict)
    scanned: dict[str, Any] = field(default_factory=dict)
    candidates: Candidates | None = None
    always: str = "true"


# As ``STATUS``, without a look at the holds of transactions that cannot lapse: most of those on a page.
_STATUS: Final = """CASE WHEN r.status NOT IN ('pending', 'partially_cleared') THEN r.status
    WHEN NOT EXISTS (
        SELECT FROM holds h WHERE h.id = r.hold_id AND h.state = 'held' AND h.expires_at <= now())
    THEN r.status WHEN r.cleared_minor > 0 THEN 'cleared' ELSE 'lapsed' END"""
_APPROVED: Final = """(r.decline_reason IS NULL AND r.kind <> 'force_post' AND (r.kind <> 'refund' OR EXISTS (
    SELECT FROM journal_rows p WHERE p.actor_id = r.card_id AND p.seq = r.seq AND p.kind <> 'present')))"""
# The index has eight bytes of tenant, mode and number (0045_compact_transactions.sql).
_RRN: Final = """r.rrn = ? AND hashtextextended(r.rrn, uuid_hash_extended(r.tenant_id, r.live::int))
    = hashtextextended(?, uuid_hash_extended($1::uuid, $2::boolean::int))"""
_DIRECT: Final = {
    "network_txn_id": "r.network_txn_id = ?",
    "rrn": _RRN,
    "card_id": "r.card_id = ?::uuid",
    "decline_reason": "r.decline_reason = ?",
}
"""Filters with one index range, the most selective first."""
_OTHERS: Final = {
    "cardholder_id": "r.cardholder_id = ?::uuid",
    "programme_id": "r.programme_id = ?::uuid",
    "mcc": "r.mcc = ?",
    "status": f"{_STATUS} = ?",
    "kind": "r.kind = ?",
    "decision": f"CASE WHEN r.decline_reason IS NOT NULL THEN 'declined' WHEN {_APPROVED} THEN 'approved' END"
    " = ?",
    # Element 8 of a compact command is the name (engine/decision/compact.py).
    "merchant": "EXISTS (SELECT FROM journal_rows m WHERE m.actor_id = r.card_id AND m.seq = r.seq"
    " AND strpos(lower(CASE WHEN m.command LIKE '[%' THEN command_values(m.command) ->> 8"
    " ELSE m.command::json ->> 'merchant_name' END), lower(?::text)) > 0)",
    "amount": "r.requested_minor = ?",
}


async def plan_of(call: Call, query: TransactionsQuery) -> Plan:
    """The plan of a page."""
    conditions = _DIRECT | _OTHERS
    given = {name: value for name in conditions if (value := getattr(query, name)) is not None}
    if query.amount is not None:
        given["amount"] = parse_amount(query.amount)
    plan = Plan(scanned={conditions[name]: value for name, value in given.items()} | query.window)
    driving = next((name for name in _DIRECT if name in given), None)
    if driving == "decline_reason":
        # The partial index holds the declined transactions of each tenant.
        plan.always = "r.decline_reason IS NOT NULL"
        _drive(plan, "decline_reason")
    elif driving == "card_id":
        _drive(plan, "card_id")
    elif driving is not None:
        plan.filters = {conditions[driving]: plan.scanned.pop(conditions[driving])} | query.around_window
    elif "programme_id" in given and "mcc" in given and "cardholder_id" not in given:
        _drive(plan, "programme_id", "mcc")
    else:
        await _merge(call, plan, given)
        if plan.candidates is None:
            plan.driving = OF_TENANT
    return plan


def _drive(plan: Plan, *names: str) -> None:
    values = tuple(plan.scanned.pop((_DIRECT | _OTHERS)[name]) for name in names)
    plan.driving = IndexRange(tuple(f"r.{name}" for name in names), values)


async def _merge(call: Call, plan: Plan, given: dict[str, Any]) -> None:
    """Let a filter with several index ranges drive, if there are not too many of them. Otherwise the page
    reads the tenant's rows."""
    caller = call.caller
    of_caller = (caller.tenant_id, caller.live)
    name = next((name for name in _RANGES if name in given), None)
    if name is not None:
        ranges, value = _RANGES[name], given[name]
        async with connected(call.services.pool) as connection:
            keys = await _keys(connection, ranges.keys, *of_caller, *([value] if "$3" in ranges.keys else []))
        if len(keys) <= PAGE_KEYS_MAX:
            # The ranges imply the condition.
            del plan.scanned[_OTHERS[name]]
            plan.candidates = _merged(ranges, keys, value)
    elif "declined" in (given.get("decision"), given.get("status")):
        if given.get("decision") == "declined":
            del plan.scanned[_OTHERS["decision"]]
        plan.candidates = _merged(_DECLINED, REASONS, *of_caller)


@dataclass(frozen=True)
class _Ranges:
    """``keys`` finds the keys of the ranges: $1 and $2 are tenant and mode, $3 is the filter's value. In
    ``condition`` the key is ``key`` and further values begin with $5."""

    keys: str
    condition: str
    key_type: str = "uuid"


_RANGES: Final = {
    "cardholder_id": _Ranges(
        "SELECT id::text AS key FROM cards WHERE cardholder_id = $3::uuid AND tenant_id = $1 AND live = $2",
        "t.card_id = key AND $5::uuid IS NOT NULL",
    ),
    "programme_id": _Ranges(
        """WITH RECURSIVE codes AS (
            SELECT p.id, (SELECT min(t.mcc) FROM transactions t WHERE t.programme_id = p.id) AS key
            FROM programmes p WHERE p.id = $3::uuid AND p.tenant_id = $1 AND p.live = $2
            UNION ALL
            SELECT c.id, (SELECT min(t.mcc) FROM transactions t WHERE t.programme_id = c.id AND t.mcc > c.key)
            FROM codes c WHERE c.key IS NOT NULL)
        SELECT key FROM codes WHERE key IS NOT NULL""",
        "t.programme_id = $5::uuid AND t.mcc = key",
        "text",
    ),
    "mcc": _Ranges(
        "SELECT id::text AS key FROM programmes WHERE tenant_id = $1 AND live = $2",
        "t.programme_id = key AND t.mcc = $5::text",
    ),
}
_DECLINED: Final = _Ranges(
    "", "t.tenant_id = $5::uuid AND t.live = $6::boolean AND t.decline_reason = key", "text"
)

# The newest row of each range says which ranges can have a row on the page: at most as many as its rows.
_MERGE: Final = """
    SELECT newest.id::text FROM (
        SELECT key FROM unnest($1::{key_type}[]) AS given (key), LATERAL (
            SELECT t.id FROM transactions t WHERE {condition} AND t.id >= $2::uuid AND t.id < $3::uuid
            ORDER BY t.id DESC LIMIT 1) head
        ORDER BY head.id DESC LIMIT $4) heads,
        LATERAL (
            SELECT t.id FROM transactions t WHERE {condition} AND t.id >= $2::uuid AND t.id < $3::uuid
            ORDER BY t.id DESC LIMIT $4) newest
    ORDER BY newest.id DESC LIMIT $4
"""


async def _keys(connection: Connection, statement: str, *values: Any) -> list[str]:
    """The keys; at most one more than a page merges."""
    rows = await connection.fetch(f"{statement} LIMIT {PAGE_KEYS_MAX + 1}", *values)
    return [row["key"] for row in rows]


def _merged(ranges: _Ranges, keys: Sequence[str], *values: Any) -> Candidates:
    statement = _MERGE.format(condition=ranges.condition, key_type=ranges.key_type)

    async def candidates(connection: Connection, _caller: Caller, bounds: Bounds, limit: int) -> list[str]:
        rows = await connection.fetch(statement, keys, bounds.first, bounds.before, limit, *values)
        return [row["id"] for row in rows]

    return candidates
