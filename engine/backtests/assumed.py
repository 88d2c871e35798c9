"""Parts of the second run: like effects, holds that stay, and replacements that continue its counters."""

from __future__ import annotations

from typing import Final

import msgspec

from engine.authorization.effects import Effect, HoldPlaced
from engine.cards.account import Account, resize_hold
from engine.commands import CreateCard
from engine.decision.decide import Decision
from engine.execution.replacing import continuation_of
from engine.replay.state import ReplayedState

NEVER_MS: Final = 253_402_300_799_000
"""The end of the year 9999: the expiry of holds that are assumed to be presented."""


def same_effects(one: Decision, other: Decision) -> bool:
    """Whether two decisions on the same state have the same effects; their traces may differ."""
    return (
        one.reason == other.reason
        and one.approved_minor == other.approved_minor
        and one.hold_expires_ms == other.hold_expires_ms
        and one.stand_in == other.stand_in
    )


def reserve_for_good(account: Account | None, effects: tuple[Effect, ...]) -> None:
    """Keep a newly placed hold: the purchase is assumed to be presented in full."""
    for effect in effects:
        if type(effect) is HoldPlaced and account is not None and effect.hold.id in account.holds:
            resize_hold(account, effect.hold, effect.hold.amount_minor, NEVER_MS)


def continuing(command: CreateCard, state: ReplayedState) -> CreateCard:
    """The issue of a replacement that continues the counters of its predecessor in ``state``."""
    continues = command.continues
    if continues is None or continues.card_id not in state.cards:
        return command
    predecessor = state.cards[continues.card_id].card
    return msgspec.structs.replace(command, continues=continuation_of(predecessor))
