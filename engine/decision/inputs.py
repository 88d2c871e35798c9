"""The inputs of a decision besides the command, as the journal stores them next to the decision.

Inputs are stored by position. Read ``engine.decision.recorded`` before changing a field.
"""

from __future__ import annotations

from typing import Final

import msgspec

from engine.cards.authorization import OriginalView
from engine.controls import Control
from engine.decision.delegation import EndpointResult
from engine.instant import day_label
from engine.rules.observed import RulesInForce

INPUTS_LAYOUT: Final = 2
"""Number of the layout in which inputs are stored; ``engine.decision.recorded`` says when it rises."""

RULES: Final = 1
"""Version of the decision rules. Under version 0, ``per_txn_cap`` compared an increment alone with the cap,
the approved amount of a programme limited the decision even after the programme had left its decisions to the
platform, and the trace did not explain the refusal of a smaller approval."""


class Inputs(msgspec.Struct, frozen=True, array_like=True, tag=INPUTS_LAYOUT, gc=False):
    """The state on which a decision depends, as the card's owner had it at that moment. Amounts in minor
    units."""

    now_ms: int
    card_seq: int
    card_state: str
    cardholder_active: bool
    network: str
    card_currency: str
    exp_year: int
    exp_month: int
    controls: tuple[Control, ...]
    day: str
    """The day of the counters; it never goes backwards."""
    day_count: int
    day_amount_minor: int
    cvv2_failures: int
    programme_version: int
    programme_status: str
    programme_mode: str
    timezone: str
    hold_expiry_days: int
    account_version: int = 0
    posted_minor: int | None = None
    """``None`` when the card is unfunded."""
    held_minor: int = 0
    lapsed_holds: tuple[str, ...] = ()
    """Expired holds of the account that were closed just before this decision."""
    original: OriginalView | None = None
    """The authorization that an increment raises; ``None`` for every other request."""
    decisioning: str = "platform"
    """``delegated``: the programme decides once the platform's own rules have passed."""
    endpoint_result: EndpointResult | None = None
    """The result of the call to the programme's decision endpoint; ``None`` before the call."""
    declared_remaining_minor: int | None = None
    """The unused part of the card's declared balance; ``None`` when none was declared."""
    rules: int = 0
    """The version of the rules that decide (``RULES``); inputs stored without it are of version 0."""
    reversed_early: bool = False
    """Whether a reversal of this message came before it, or an advice has replaced it. The decision is the
    same, but nothing is held."""
    rules_in_force: RulesInForce | None = None
    """The card's authorization rules; ``None`` when it has none. ``rules`` is another thing: the version of
    the platform's own rules."""


def day_of(inputs: Inputs) -> str:
    """The day label to which a decision counts."""
    return max(inputs.day, day_label(inputs.now_ms, inputs.timezone))


def cvv2_failures_on(inputs: Inputs, day: str) -> int:
    """Wrong CVV2 values presented on ``day`` before this decision."""
    return inputs.cvv2_failures if day == inputs.day else 0
