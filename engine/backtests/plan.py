"""What a back-test changes, for which cards, in which window."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.cards.card import Card
from engine.controls import Control, in_precedence, kind_of

ScopeType = Literal["programme", "card_product", "card"]


class Scope(msgspec.Struct, frozen=True):
    """The cards to which the change applies: all of a programme or of a card product, or one."""

    type: ScopeType
    id: str

    def covers(self, card: Card) -> bool:
        """Whether the change applies to ``card``."""
        if self.type == "programme":
            return card.programme_id == self.id
        return (card.card_product_id if self.type == "card_product" else card.id) == self.id


class ControlsChange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the controls of each card: those of the kinds in ``remove`` go, those in ``add`` come."""

    remove: tuple[str, ...] = ()
    add: tuple[Control, ...] = ()


class Change(msgspec.Struct, frozen=True, omit_defaults=True):
    """The change that a back-test examines."""

    controls: ControlsChange | None = None


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """A back-test: ``change`` applies to decisions from ``from_ms`` to before ``to_ms``."""

    scope: Scope
    from_ms: int
    to_ms: int
    change: Change
    assume_presented: bool = True
    """Whether newly approved purchases are presented in full; otherwise their holds lapse."""


def changed_controls(controls: tuple[Control, ...], change: Change) -> tuple[Control, ...]:
    """``controls`` of a card after ``change``, in the order of evaluation."""
    if change.controls is None:
        return controls
    kept = tuple(each for each in controls if kind_of(each) not in change.controls.remove)
    return in_precedence((*kept, *change.controls.add))
