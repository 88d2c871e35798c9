"""``stanchion transactions``: transactions as a table, and one transaction with the trace of its decision."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from ops.commands.tables import facts, money_text, second, table
from stanchion.records import Transaction

COLUMNS: Final = (
    "CREATED",
    "TRANSACTION",
    "CARD",
    "KIND",
    "STATUS",
    "AMOUNT",
    "DECISION",
    "REASON",
    "MERCHANT",
)
TRACE_COLUMNS: Final = ("RULE", "OUTCOME", "OBSERVED", "LIMIT")
EVENT_COLUMNS: Final = ("AT", "EVENT", "AMOUNT")


def lines(transactions: Iterable[Transaction]) -> list[str]:
    """The transactions as a table for people."""
    return table(COLUMNS, map(_row, transactions))


def described(transaction: Transaction) -> list[str]:
    """One transaction: its facts, its history, and the trace of its decision rule by rule."""
    merchant, network = transaction["merchant"], transaction["network"]
    currency = transaction["currency"]
    amounts = {
        "requested": transaction["requested_amount"],
        "approved": transaction["approved_amount"],
        "held": transaction["held_amount"],
        "cleared": transaction["cleared_amount"],
        "reversed": transaction["reversed_amount"],
    }
    return [
        *facts(
            (
                ("transaction", transaction["id"]),
                ("authorization", transaction["authorization_id"]),
                ("card", transaction["card_id"]),
                ("status", f"{transaction['kind']}, {transaction['status']}"),
                ("decision", _decision(transaction)),
                *((name, f"{amount} {currency}") for name, amount in amounts.items()),
                ("merchant amount", money_text(transaction["merchant_amount"])),
                (
                    "merchant",
                    f"{merchant['name']} ({merchant['country']}), MCC {transaction['mcc']}",
                ),
                ("channel", transaction["channel"]),
                ("network", f"{network['name']}, STAN {network['stan']}, RRN {network['rrn']}"),
                ("response code", network["response_code"]),
            )
        ),
        "",
        *table(
            EVENT_COLUMNS,
            ((second(each["occurred_at"]), each["type"], each["amount"]) for each in transaction["events"]),
        ),
        "",
        *table(
            TRACE_COLUMNS,
            (
                (each["rule"], each["outcome"], each["observed"], each["limit"])
                for each in transaction["trace"]
            ),
        ),
    ]


def _row(transaction: Transaction) -> tuple[str | None, ...]:
    return (
        second(transaction["created_at"]),
        transaction["id"],
        transaction["card_id"],
        transaction["kind"],
        transaction["status"],
        f"{transaction['requested_amount']} {transaction['currency']}",
        transaction["decision"],
        transaction["decline_reason"],
        transaction["merchant"]["name"],
    )


def _decision(transaction: Transaction) -> str | None:
    if transaction["decision"] is None:
        return None
    reason = "" if transaction["decline_reason"] is None else f", {transaction['decline_reason']}"
    return f"{transaction['decision']}{reason}, by {transaction['decided_by']}"
