"""A programme's configuration: the part of it that hosts keep beside their cards as a versioned snapshot."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.instant import to_text
from engine.kyc.flows import DOCUMENT_TYPES
from engine.limits import DECISION_TIMEOUT_MS_DEFAULT, HOLD_EXPIRY_DAYS_DEFAULT, HOLD_EXPIRY_DAYS_TRAVEL

TRAVEL_MCCS = frozenset(
    {str(mcc) for mcc in range(3351, 3501)}
    | {str(mcc) for mcc in range(3501, 4000)}
    | {"7011", "7512", "7513", "4411"}
)
"""Car rental, lodging and cruise lines: their authorizations stay open longer (contract, section 4)."""

TRANSITIONS: dict[str, frozenset[str]] = {
    "active": frozenset({"suspended", "closed"}),
    "suspended": frozenset({"active", "closed"}),
    "closed": frozenset(),
}
"""Programme status: from each to which; an absent pair is the illegal move."""


class ProgrammeConfig(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One version of a programme. ``version`` starts at 1 and rises by exactly 1 with each committed
    change."""

    id: str
    tenant_id: str
    live: bool
    name: str
    currency: str
    version: int = 1
    mode: Literal["managed", "gateway"] = "managed"
    decisioning: Literal["platform", "delegated"] = "platform"
    decision_url: str | None = None
    decision_timeout_ms: int = DECISION_TIMEOUT_MS_DEFAULT
    timezone: str = "UTC"
    hold_expiry_days: int = HOLD_EXPIRY_DAYS_DEFAULT
    kyc_policy: str | None = None
    kyc_document_types: list[str] = msgspec.field(default_factory=lambda: list(DOCUMENT_TYPES))
    status: Literal["active", "suspended", "closed"] = "active"
    created_ms: int = 0
    updated_ms: int = 0


def hold_expiry_days(programme_days: int, mcc: str) -> int:
    """How many days an authorization at ``mcc`` stays open."""
    return max(programme_days, HOLD_EXPIRY_DAYS_TRAVEL) if mcc in TRAVEL_MCCS else programme_days


def programme_view(config: ProgrammeConfig) -> dict[str, Any]:
    """The public representation (contract, section 4), without secrets."""
    view = {
        name: getattr(config, name)
        for name in config.__struct_fields__
        if name not in {"tenant_id", "live", "created_ms", "updated_ms"}
    }
    return view | {"created_at": to_text(config.created_ms), "updated_at": to_text(config.updated_ms)}
