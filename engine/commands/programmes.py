"""Programmes, their rules, and stand-in."""

from __future__ import annotations

from engine.commands.base import CommandBase
from engine.programmes.programme import ProgrammeConfig
from engine.programmes.stand_in import StandInPolicy, StandInRequest
from engine.rules.model import Rule, RuleChange


class CreateProgramme(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="create_programme"):
    """Create a programme; ``id`` is its id, ``config.version`` is 1."""

    config: ProgrammeConfig
    decision_secret_sealed: bytes
    """The secret that signs calls to the programme's decision endpoint, sealed by the vault. The API shows it
    once."""
    external_ref: str | None = None
    """The issuer's own reference, for the audit log only: the API stores it."""
    metadata: dict[str, str] = {}
    """The issuer's own pairs, for the audit log only."""


class ChangeProgramme(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="change_programme"):
    """Replace parts of a programme's configuration; ``changes`` maps field names to new values."""

    programme_id: str
    tenant_id: str
    live: bool
    changes: dict[str, str | int | list[str] | None]


class SetStandInPolicy(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="set_stand_in_policy"):
    """Replace a programme's stand-in policy; the owner sets its version and time."""

    programme_id: str
    tenant_id: str
    live: bool
    policy: StandInPolicy


class CreateProgrammeRule(
    CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="create_programme_rule"
):
    """Create a rule of a programme or of a card product: as ``CreateCardRule``, on the programme's shard."""

    programme_id: str
    tenant_id: str
    live: bool
    rule: Rule


class ChangeProgrammeRule(
    CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="change_programme_rule"
):
    """Change a rule of a programme or of a card product, or its state: as ``ChangeCardRule``."""

    programme_id: str
    tenant_id: str
    live: bool
    change: RuleChange


class GrantStandIns(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="grant_stand_ins"):
    """Reserve exposure for several approvals in stand-in. If they start an outage, its id derives from
    ``id``."""

    programme_id: str
    asks: tuple[StandInRequest, ...]


class PreviewStandIn(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="preview_stand_in"):
    """Read the grant that the owner would give now. Nothing is reserved, and no outage starts."""

    programme_id: str
    ask: StandInRequest


class EndOutage(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="end_outage"):
    """End this outage after a usable answer of the programme's endpoint."""

    programme_id: str
    outage_id: str
