"""The statements of exports: one for each kind, with the columns of its rows in their order.

PostgreSQL writes CSV and JSON itself, so an API server moves bytes and its memory is bounded. In a statement
$1 to $4 are tenant, mode and the window, half-open; $5 and $6 are ids around the window.
"""

from __future__ import annotations

from typing import Final, Literal

from engine.currencies import MINOR_DIGITS_BY_CURRENCY
from engine.decline import RULE_REASONS

ExportKind = Literal["transactions", "ledger_entries", "decisions", "stand_ins"]
Format = Literal["csv", "jsonl"]


def _instant(column: str) -> str:
    return f"""to_char({column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')"""


def _amount(column: str) -> str:
    return f"to_char(({column}) / 100.0, 'FM9999999999999999990.00')"


def _merchant_amount() -> str:
    """What the merchant charged, with the minor digits of its currency."""
    minor = "(q.command #>> '{merchant_amount,amount_minor}')::bigint"
    cases = [f"WHEN {minor} IS NULL THEN {_amount('r.requested_minor')}"]
    for digits, shown in ((0, "FM9999999999999999990"), (3, "FM9999999999999999990.000")):
        codes = ", ".join(f"'{code}'" for code, each in MINOR_DIGITS_BY_CURRENCY.items() if each == digits)
        amount = f"to_char({minor} / {10**digits}.0, '{shown}')"
        cases.append(f"WHEN q.command #>> '{{merchant_amount,currency}}' IN ({codes}) THEN {amount}")
    return f"CASE {' '.join(cases)} ELSE {_amount(minor)} END"


_MERCHANT_AMOUNT: Final = _merchant_amount()
_OVERDUE: Final = "(h.state = 'held' AND h.expires_at <= now())"
_WINDOW: Final = """r.tenant_id = $1::uuid AND r.live = $2::boolean AND r.created_at >= $3::timestamptz
    AND r.created_at < $4::timestamptz AND r.id >= $5::uuid AND r.id < $6::uuid"""
_DECISION: Final = """CASE WHEN r.decline_reason IS NOT NULL THEN 'declined'
    WHEN j.kind IN ('authorize', 'advise') THEN 'approved' END"""

COLUMNS: Final[dict[ExportKind, dict[str, str]]] = {
    "transactions": {
        "id": "r.id::text",
        "created_at": _instant("r.created_at"),
        "updated_at": _instant(f"CASE WHEN {_OVERDUE} THEN h.expires_at ELSE r.updated_at END"),
        "kind": "r.kind",
        "status": f"""CASE WHEN NOT coalesce({_OVERDUE}, false) THEN r.status
            WHEN r.cleared_minor > 0 THEN 'cleared' ELSE 'lapsed' END""",
        "programme_id": "r.programme_id::text",
        "card_id": "r.card_id::text",
        "cardholder_id": "c.cardholder_id::text",
        "currency": "r.currency",
        "requested_amount": _amount("r.requested_minor"),
        "approved_amount": _amount("r.approved_minor"),
        "held_amount": _amount(f"CASE WHEN {_OVERDUE} THEN 0 ELSE r.held_minor END"),
        "cleared_amount": _amount("r.cleared_minor"),
        "reversed_amount": _amount("r.reversed_minor"),
        "decision": _DECISION,
        "decline_reason": "r.decline_reason",
        "decline_detail": f"""CASE WHEN r.decline_reason IN {RULE_REASONS}
            THEN j.decision::json ->> 'decline_detail' END""",
        "merchant_amount": _MERCHANT_AMOUNT,
        "merchant_currency": "coalesce(q.command #>> '{merchant_amount,currency}', r.currency)",
        "conversion_rate": "q.command #>> '{merchant_amount,rate}'",
        "mcc": "r.mcc",
        "merchant_id": "q.command ->> 'merchant_id'",
        "merchant_name": "q.command ->> 'merchant_name'",
        "merchant_country": "q.command ->> 'merchant_country'",
        "channel": "q.command ->> 'channel'",
        "network": "c.network",
        "stan": "q.command #>> '{wire,stan}'",
        "rrn": "r.rrn",
        "network_txn_id": "r.network_txn_id",
        "metadata": """coalesce(
            (SELECT o.metadata FROM object_metadata o WHERE o.object_id = r.id), '{}')::json""",
    },
    "ledger_entries": {
        "id": "r.id::text",
        "occurred_at": _instant("r.occurred_at"),
        "transfer_id": "r.transfer_id::text",
        "account_id": "r.account_id::text",
        "account_kind": "a.kind",
        "programme_id": "a.programme_id::text",
        "direction": "r.direction",
        "amount": _amount("r.amount_minor"),
        "currency": "r.currency",
        "authorization_id": "r.authorization_id::text",
    },
    "decisions": {
        "id": "q.command ->> 'id'",
        "decided_at": _instant("j.recorded_at"),
        "authorization_id": "r.id::text",
        "operation": "CASE j.kind WHEN 'increment' THEN 'increment' ELSE 'authorization' END",
        "programme_id": "r.programme_id::text",
        "card_id": "r.card_id::text",
        "cardholder_id": "r.cardholder_id::text",
        "amount": _amount("(q.command ->> 'amount_minor')::bigint"),
        "currency": "q.command ->> 'currency'",
        "decision": "q.decision ->> 'decision'",
        "decline_reason": "q.decision ->> 'reason'",
        "decline_detail": "q.decision ->> 'decline_detail'",
        "decided_by": "q.decision ->> 'decided_by'",
        "approved_amount": _amount("(q.decision ->> 'approved_minor')::bigint"),
        "response_code": "q.decision ->> 'response_code'",
        "risk_score": "(q.decision ->> 'risk_score')::integer",
        "mcc": "q.command ->> 'mcc'",
        "merchant_id": "q.command ->> 'merchant_id'",
        "merchant_name": "q.command ->> 'merchant_name'",
        "merchant_country": "q.command ->> 'merchant_country'",
        "trace": "j.decision::json -> 'trace'",
    },
    "stand_ins": {
        "id": "r.id::text",
        "decided_at": _instant("r.decided_at"),
        "programme_id": "r.programme_id::text",
        "card_id": "r.card_id::text",
        "authorization_id": "r.authorization_id::text",
        "outage_id": "r.outage_id::text",
        "decision": "r.decision",
        "rule": "r.rule",
        "trigger": "r.trigger",
        "amount": _amount("r.amount_minor"),
        "currency": "r.currency",
        "mcc": "r.mcc",
        "exposure_minor": "r.exposure_minor::text",
        "budget_used_minor": "r.budget_used_minor::text",
        "budget_limit_minor": "r.budget_limit_minor::text",
        "response_code": "r.response_code",
        "stan": "r.stan",
        "rrn": "r.rrn",
    },
}
"""The columns of each kind, with their SQL."""

FREE_TEXT: Final = frozenset({"merchant_id", "merchant_name", "metadata", "network_txn_id", "rrn", "stan"})
"""Columns with text from outside, which a spreadsheet could take for a formula."""

# Parsed once for each row. The trace is taken from the text, in which its members keep their order.
_COMMAND: Final = "CROSS JOIN LATERAL (SELECT j.command::jsonb AS command OFFSET 0) q"
_COMMAND_AND_DECISION: Final = """CROSS JOIN LATERAL (
            SELECT j.command::jsonb AS command, j.decision::jsonb AS decision OFFSET 0) q"""
_FROM: Final[dict[ExportKind, str]] = {
    "transactions": f"""transactions r JOIN cards c ON c.id = r.card_id
        JOIN journal j ON j.actor_id = r.card_id AND j.seq = r.seq LEFT JOIN holds h ON h.id = r.hold_id
        {_COMMAND}
        WHERE {_WINDOW} ORDER BY r.id""",
    "ledger_entries": """ledger_entries r JOIN accounts a ON a.id = r.account_id
        WHERE a.tenant_id = $1::uuid AND a.live = $2::boolean AND r.occurred_at >= $3::timestamptz
            AND r.occurred_at < $4::timestamptz AND r.id >= $5::uuid AND r.id < $6::uuid ORDER BY r.id""",
    "decisions": f"""transactions r CROSS JOIN LATERAL (
            SELECT * FROM journal f WHERE f.actor_id = r.card_id AND f.seq = r.seq AND f.kind = 'authorize'
            UNION ALL
            SELECT * FROM journal i WHERE i.authorization_id = r.id AND i.kind = 'increment') j
        {_COMMAND_AND_DECISION}
        WHERE {_WINDOW} ORDER BY r.id, j.seq""",
    "stand_ins": """stand_ins r JOIN programmes p ON p.id = r.programme_id
        WHERE p.tenant_id = $1::uuid AND p.live = $2::boolean AND r.decided_at >= $3::timestamptz
            AND r.decided_at < $4::timestamptz AND $5::uuid < $6::uuid ORDER BY r.decided_at, r.id""",
}

# Spreadsheets run cells that begin like this (OWASP, CSV injection). A quote in front makes them text.
_DANGEROUS: Final = r"'^(?=[=+@\t\r-])'"

COPY_OPTIONS: Final[dict[Format, dict[str, object]]] = {
    "csv": {"format": "csv", "header": True},
    # One JSON text a line, unchanged: it contains none of these characters, and they are not printable.
    "jsonl": {"format": "csv", "quote": "\x01", "delimiter": "\x02"},
}
"""Options of COPY, by the names that the driver gives them."""


def planner_settings(kind: ExportKind) -> dict[str, str]:
    """Session settings with which PostgreSQL streams the rows, in the order of an index.

    Otherwise it would join whole tables, those of other tenants included, by hashes that spill to temporary
    files, and use further processors: a large export must not disturb decisions. Ledger entries have no
    tenant; those of the tenant's accounts are found by index and sorted, in temporary files of about the
    export's size.
    """
    settings = {"enable_hashjoin": "off", "enable_mergejoin": "off", "max_parallel_workers_per_gather": "0"}
    return settings if kind == "ledger_entries" else settings | {"enable_sort": "off"}


def statement(kind: ExportKind, format_: Format) -> str:
    """The query whose rows COPY writes."""
    if format_ == "csv":
        shown = ", ".join(f"{_cell(name, sql)} AS {name}" for name, sql in COLUMNS[kind].items())
    else:
        pairs = ", ".join(f"'{name}', {sql}" for name, sql in COLUMNS[kind].items())
        shown = f"json_build_object({pairs})::text"
    return f"SELECT {shown} FROM {_FROM[kind]}"


def _cell(name: str, sql: str) -> str:
    if name not in FREE_TEXT:
        return sql
    return f"regexp_replace(({sql})::text, {_DANGEROUS}, '''')"
