"""Stored inputs of decisions, in the present layout and in earlier ones.

Inputs are stored by position, which halves their size, after the number of their layout. A field may be added
at the end with a default. Any other change of ``Inputs`` or of its structures is a new layout:
``INPUTS_LAYOUT`` rises, and a copy of the old structure stays here to decode stored inputs.
"""

from __future__ import annotations

import msgspec

from engine.cards.authorization import OriginalView
from engine.controls import Control
from engine.decision.delegation import EndpointResult
from engine.decision.inputs import INPUTS_LAYOUT, Inputs


class _FirstLayout(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Layout 1, which has no number. Never change it."""

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
    held_minor: int = 0
    lapsed_holds: tuple[str, ...] = ()
    original: OriginalView | None = None
    decisioning: str = "platform"
    endpoint_result: EndpointResult | None = None
    declared_remaining_minor: int | None = None


_decode = msgspec.json.Decoder(Inputs).decode
_decode_first = msgspec.json.Decoder(_FirstLayout).decode
_START = f"[{INPUTS_LAYOUT},"


def decode_inputs(stored: str) -> Inputs:
    """The inputs of a stored decision, in any layout. Raises ``msgspec.DecodeError``."""
    if stored.startswith(_START):
        return _decode(stored)
    first = _decode_first(stored)
    return Inputs(**{name: getattr(first, name) for name in _FirstLayout.__struct_fields__})
