"""The life of a transaction as a timeline: its history, its ledger entries, and its events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

_TITLES: Final = {
    "authorization": "Authorization",
    "refund": "Refund",
    "force_post": "Force post",
    "advice": "Advice of the network",
    "increment": "Increment",
    "reversal": "Reversal",
    "clearing": "Presentment",
    "lapse": "Hold lapsed",
}
REMARKS: Final = {
    "declined": "declined",
    "late": "no open hold was left",
    "nothing_held": "nothing was held any more",
    "matched": "presents a refund that was posted before",
}


class Step(NamedTuple):
    """One line of the timeline."""

    at: str
    """ISO 8601, as the API shows it."""
    source: str
    """``history``, ``ledger`` or ``event``."""
    title: str
    amount: str | None = None
    currency: str | None = None
    detail: str | None = None
    tone: str = "neutral"
    event_id: str | None = None
    transfer_id: str | None = None
    until: str | None = None
    """When a hold expires."""


def timeline(
    transaction: dict[str, Any], entries: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]]
) -> list[Step]:
    """All steps, oldest first. Within an instant: the history, then the ledger, then the events."""
    steps = [
        *(_history(transaction, each, first=not index) for index, each in enumerate(transaction["events"])),
        *_transfers(entries),
        *(_event(each) for each in sorted(events, key=_is_effect)),
    ]
    # The sort is stable, and instants of the API sort as texts.
    return sorted(steps, key=lambda step: step.at)


def _history(transaction: dict[str, Any], event: dict[str, Any], *, first: bool) -> Step:
    title, tone, detail = _TITLES[event["type"]], "neutral", REMARKS.get(event.get("remark", ""))
    if event["type"] == "lapse":
        tone = "warn"
    elif event.get("remark") == "declined":
        tone = "bad"
    elif event["type"] in {"increment", "clearing", "refund"}:
        tone = "good"
    if first and transaction["decision"] is not None:
        declined = transaction["decision"] == "declined"
        tone = "bad" if declined else "good"
        detail = transaction["decline_reason"] or f"approved {transaction['approved_amount']}"
    return Step(
        event["occurred_at"],
        "history",
        title,
        event["amount"],
        transaction["currency"],
        detail,
        tone,
    )


def _transfers(entries: Sequence[dict[str, Any]]) -> list[Step]:
    """One step for each transfer: its debit and its credit."""
    transfers: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        transfers.setdefault(entry["transfer_id"], []).append(entry)
    steps = []
    for transfer_id, sides in transfers.items():
        first = sides[0]
        accounts = ", ".join(
            f"{side['direction']} {side['account_id']}"
            for side in sorted(sides, key=lambda each: each["direction"], reverse=True)
        )
        steps.append(
            Step(
                first["created_at"],
                "ledger",
                "Posted to the ledger",
                first["amount"]["amount"],
                first["amount"]["currency"],
                accounts,
                transfer_id=transfer_id,
            )
        )
    return steps


def _is_effect(event: dict[str, Any]) -> bool:
    """Events of one instant are in no order; the decision comes before its effects."""
    return bool(event["type"] != "authorization.decided")


def _event(event: dict[str, Any]) -> Step:
    data = event["data"]
    detail = f"available {data['available']}" if "available" in data else None
    return Step(
        event["created_at"],
        "event",
        event["type"],
        data.get("amount") if isinstance(data.get("amount"), str) else None,
        data.get("asset") or data.get("currency"),
        detail,
        event_id=event["id"],
        until=data.get("expires_at"),
    )
