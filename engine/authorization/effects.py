"""What a command changes, as facts in the past tense. ``execute`` returns them, only ``evolve`` applies
them, ``actors`` write them."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.cards.authorization import Authorization, Closed
from engine.cards.card import Card, DeclaredBalance
from engine.cards.hold import Hold
from engine.controls import Control
from engine.programmes.stand_in import StandIn


class CardIssued(msgspec.Struct, frozen=True):
    """A card came to be; ``opened_account_id`` names the account opened with it, if any."""

    card: Card
    opened_account_id: str | None


class CardChanged(msgspec.Struct, frozen=True):
    """The card's own state or controls are now these."""

    state: str
    state_reason: str | None
    controls: tuple[Control, ...]


class CardholderSet(msgspec.Struct, frozen=True, gc=False):
    """The card's cardholder is now active, or is not."""

    active: bool


class BalanceDeclared(msgspec.Struct, frozen=True, gc=False):
    """The card's declared balance now stands like this."""

    declared: DeclaredBalance


class Counted(msgspec.Struct, frozen=True, gc=False):
    """Approvals of ``day`` changed by so much; a reversal counts back, and a closed day is not reopened."""

    day: str
    amount_minor: int
    count: int


class Cvv2Failed(msgspec.Struct, frozen=True, gc=False):
    """A wrong CVV2 was presented on ``day``."""

    day: str


class TombstoneSet(msgspec.Struct, frozen=True):
    """A reversal came before its original, at ``recorded_ms``."""

    references: tuple[str, ...]
    recorded_ms: int


class AuthorizationOpened(msgspec.Struct, frozen=True, gc=False):
    """A transaction came to be, approved or declined; ``held`` tells whether a hold was left open for it."""

    authorization: Authorization
    held_minor: int


class AuthorizationMoved(msgspec.Struct, frozen=True, gc=False):
    """An earlier transaction now stands like this."""

    approved_minor: int
    cleared_minor: int
    reversed_minor: int
    hold_id: str | None
    closed: Closed | None
    decline_reason: str | None
    held_minor: int
    remainder_minor: int
    day: str


class IncrementSet(msgspec.Struct, frozen=True, gc=False):
    """So much is left of the increment that the message ``reference`` asked for (``Increment``)."""

    reference: str
    left_minor: int
    day: str
    counted_minor: int


class HoldPlaced(msgspec.Struct, frozen=True, gc=False):
    """Money was reserved."""

    hold: Hold


class HoldResized(msgspec.Struct, frozen=True, gc=False):
    """A hold now reserves another amount, perhaps for longer."""

    hold_id: str
    amount_minor: int
    expires_ms: int


class HoldClosed(msgspec.Struct, frozen=True, gc=False):
    """A hold ended by a command."""

    hold_id: str
    state: Closed


class HoldLapsed(msgspec.Struct, frozen=True, gc=False):
    """A hold ended by time; its authorization may be another card's, and need not be in memory."""

    hold_id: str
    authorization_id: str


class Transferred(msgspec.Struct, frozen=True, gc=False):
    """Money moved between the card's account and another one of the programme."""

    transfer_id: str
    debit_entry_id: str
    credit_entry_id: str
    other_account_id: str
    direction: Literal["debit", "credit"]
    """As the card's account sees it: ``credit`` raises its balance."""
    amount_minor: int
    authorization_id: str | None


class StoodIn(msgspec.Struct, frozen=True):
    """A decision was made in stand-in: what the activity report says of it."""

    id: str
    authorization_id: str
    how: StandIn
    decision: Literal["approved", "declined"]
    amount_minor: int
    currency: str
    mcc: str
    response_code: str
    stan: str
    rrn: str


CardEffect = (
    CardIssued | CardChanged | CardholderSet | BalanceDeclared | Counted | Cvv2Failed | TombstoneSet | StoodIn
)
AuthorizationEffect = AuthorizationOpened | AuthorizationMoved | IncrementSet
AccountEffect = HoldPlaced | HoldResized | HoldClosed | HoldLapsed | Transferred
Effect = CardEffect | AuthorizationEffect | AccountEffect
