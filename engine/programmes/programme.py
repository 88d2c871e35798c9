"""A programme and its configuration, of which each shard host has a versioned snapshot."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from engine.instant import to_text
from engine.kyc.flows import DOCUMENT_TYPES
from engine.limits import DECISION_TIMEOUT_MS_DEFAULT, HOLD_EXPIRY_DAYS_DEFAULT, HOLD_EXPIRY_DAYS_TRAVEL
from engine.money import format_minor
from engine.programmes.stand_in import Outage, StandInPolicy
from engine.rules.model import Rule

TRAVEL_MCCS = frozenset(
    {str(mcc) for mcc in range(3351, 3501)}
    | {str(mcc) for mcc in range(3501, 4000)}
    | {"7011", "7512", "7513", "4411"}
)
"""Car rental, lodging and cruise lines, whose holds expire later."""

TRANSITIONS: dict[str, frozenset[str]] = {
    "active": frozenset({"suspended", "closed"}),
    "suspended": frozenset({"active", "closed"}),
    "closed": frozenset(),
}
"""The next statuses of each programme status; one that is not listed is an illegal transition."""


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
    card_renewal: Literal["off", "virtual", "all"] = "virtual"
    """Which cards are renewed before they expire (``api.sweepers.renewals``)."""
    status: Literal["active", "suspended", "closed"] = "active"
    stand_in: StandInPolicy = StandInPolicy()
    created_ms: int = 0
    updated_ms: int = 0


class Programme(msgspec.Struct, frozen=True, omit_defaults=True):
    """A programme in its owner's memory and in the snapshots of hosts. ``seq`` is the number of its last
    journaled command; the snapshot with the larger ``seq`` is newer."""

    config: ProgrammeConfig
    seq: int
    outage: Outage | None = None
    decision_secret_sealed: bytes | None = None
    """The secret that signs calls to ``decision_url``, sealed by the vault."""
    rules: tuple[Rule, ...] = ()
    """The authorization rules of the programme and of its card products, except retired ones."""


def hold_expiry_days(programme_days: int, mcc: str) -> int:
    """Days from an approval at ``mcc`` to the expiry of its hold."""
    return max(programme_days, HOLD_EXPIRY_DAYS_TRAVEL) if mcc in TRAVEL_MCCS else programme_days


def programme_view(config: ProgrammeConfig) -> dict[str, Any]:
    """The public representation, without secrets."""
    view = {
        name: getattr(config, name)
        for name in config.__struct_fields__
        if name not in {"tenant_id", "live", "stand_in", "created_ms", "updated_ms"}
    }
    return view | {"created_at": to_text(config.created_ms), "updated_at": to_text(config.updated_ms)}


def policy_view(config: ProgrammeConfig) -> dict[str, Any]:
    """The public representation of the stand-in policy."""
    policy = config.stand_in
    return {
        "programme_id": config.id,
        "mode": policy.mode,
        "triggers": msgspec.to_builtins(msgspec.structs.asdict(policy.triggers)),
        "max_amount": None if policy.max_amount_minor is None else format_minor(policy.max_amount_minor),
        "max_total_exposure": None
        if policy.max_total_exposure_minor is None
        else {"amount": format_minor(policy.max_total_exposure_minor), "currency": policy.budget_currency},
        "max_count_per_day": policy.max_count_per_day,
        "mcc_list": list(policy.mcc_list),
        "mcc_list_mode": policy.mcc_list_mode,
        "version": policy.version,
        "updated_at": to_text(policy.updated_ms or config.created_ms),
    }
