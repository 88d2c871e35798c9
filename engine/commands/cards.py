"""Cards, their controls, rules and declared balances."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.commands.base import CommandBase
from engine.controls import Control
from engine.rules.model import Rule, RuleChange


class Continuation(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """The state that a replacement card continues: the counters of ``day`` and the declared balance of the
    card that it replaces. Amounts in minor units."""

    card_id: str
    """The replaced card."""
    day: str = ""
    day_count: int = 0
    day_amount_minor: int = 0
    declared_minor: int | None = None
    consumed_minor: int = 0
    declared_ms: int = 0


class CreateCard(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="create_card"):
    """Issue a card. ``id`` is the card's id; the vault already has the card number under it."""

    tenant_id: str
    live: bool
    programme_id: str
    card_product_id: str
    cardholder_id: str
    account_id: str | None
    """The funding account; ``None`` leaves the card unfunded."""
    opens_account: bool
    """Whether ``account_id`` is a new account that this command opens."""
    network: Literal["visa", "mastercard"]
    currency: str
    iin: str
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: Literal["unactivated", "active"]
    controls: tuple[Control, ...] = ()
    rules: tuple[Rule, ...] = ()
    """The authorization rules of a replaced card, which now belong to its replacement."""
    cardholder_active: bool = True
    """``False``: the card declines until ``SetCardholderStatus`` activates its cardholder."""
    external_ref: str | None = None
    """The issuer's own reference, for the event and the audit log only: the API stores it."""
    metadata: dict[str, str] = {}
    """The issuer's own pairs, for the event and the audit log only."""
    continues: Continuation | None = None
    """Set on a replacement; its owner issues it together with ``ReplaceCard``."""


Replacement = Literal["lost", "stolen", "damaged", "expired"]
"""Why a card is replaced."""


class ReplaceCard(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="replace_card"):
    """End a card, and issue its replacement on the same account and shard. ``id`` is the replacement's id;
    the vault already has its card number under it. The replacement declines until
    ``SetCardholderStatus``."""

    card_id: str
    """The card to be replaced."""
    tenant_id: str
    live: bool
    reason: Replacement
    last4: str
    pan_ref: str
    exp_month: int
    exp_year: int
    cvk_generation: str
    state: Literal["unactivated", "active"]
    external_ref: str | None = None
    """The reference of both cards, for the events only: the API stores it."""
    metadata: dict[str, str] = {}
    """The pairs of both cards, for the events only."""


class ChangeCard(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="change_card"):
    """Change a card's state, controls or both; ``None`` leaves a part unchanged."""

    card_id: str
    tenant_id: str
    live: bool
    state: str | None = None
    state_reason: str | None = None
    controls: tuple[Control, ...] | None = None
    external_ref: str | None = None
    """As in ``CreateCard``."""
    metadata: dict[str, str] = {}


class SetCardholderStatus(
    CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="set_cardholder_status"
):
    """Set whether a card's cardholder is active; otherwise the card declines."""

    card_id: str
    tenant_id: str
    live: bool
    active: bool


class CreateCardRule(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="create_card_rule"):
    """Create a rule of a card. ``id`` is the rule's id, on the shard of the card; ``rule`` has version 1 and
    any state but ``retired``. The owner sets its times. The reply is ``rule_view``."""

    card_id: str
    tenant_id: str
    live: bool
    rule: Rule


class ChangeCardRule(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="change_card_rule"):
    """Change a rule of a card, or its state. A rule that is retired, or unknown, is refused (409)."""

    card_id: str
    tenant_id: str
    live: bool
    change: RuleChange


class DeclareBalance(CommandBase, frozen=True, omit_defaults=True, kw_only=True, tag="declare_balance"):
    """Declare the amount that a card may spend in stand-in; replaces the earlier declaration and its use."""

    card_id: str
    tenant_id: str
    live: bool
    amount_minor: int
    currency: str
