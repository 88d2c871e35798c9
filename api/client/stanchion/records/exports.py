"""Exports and settlement reports."""

from __future__ import annotations

from typing import Literal

from stanchion.compat import TypedDict

ExportKind = Literal["transactions", "ledger_entries", "decisions", "stand_ins"]
ExportFormat = Literal["csv", "jsonl"]


class Download(TypedDict):
    """The address of an export's content, relative to that of the API. It needs no token: keep it secret."""

    url: str
    expires_at: str


# ``from`` is no name in Python, so this type has the functional form.
Export = TypedDict(
    "Export",
    {
        "id": str,
        "kind": ExportKind,
        "format": ExportFormat,
        "from": str,
        "to": str,
        "state": Literal["pending", "running", "completed", "failed"],
        "failure": str | None,
        "rows": int,
        "rows_estimated": int | None,
        "bytes": int,
        "sha256": str | None,
        "as_of": str | None,
        "created_at": str,
        "completed_at": str | None,
        "download": Download | None,
    },
)
"""An export; ``sha256`` and ``bytes`` are those of the content without compression."""


class SettlementPart(TypedDict):
    """A number of transactions or entries, and the sum of their amounts."""

    count: int
    amount: str


class SettlementLine(TypedDict):
    """The amounts of one network and currency; ``net`` is ``presented`` - ``refunded``."""

    network: str | None
    currency: str
    authorized: SettlementPart
    presented: SettlementPart
    refunded: SettlementPart
    fees: SettlementPart
    net: str


SettlementReport = TypedDict(
    "SettlementReport",
    {
        "programme_id": str,
        "date": str,
        "timezone": str,
        "from": str,
        "to": str,
        "as_of": str,
        "final": bool,
        "lines": list[SettlementLine],
    },
)
"""The settlement report of one programme and day."""
