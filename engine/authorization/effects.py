"""The effects of commands, in the past tense. ``execute`` returns them, only ``evolve`` applies them, and
``actors.cards.effect_rows`` turns them into rows."""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.cards.authorization import Authorization, Closed
from engine.cards.card import Card, DeclaredBalance
from engine.cards.hold import Hold
from engine.controls import Control
from engine.programmes.stand_in import StandIn
from engine.rules.model import Rule


class CardIssued(msgspec.Struct, frozen=True):
    """A card was issued; ``opened_account_id`` names the account opened with it, if any."""

    card: Card
    opened_account_id: str | None


class CardChanged(msgspec.Struct, frozen=True):
    """The card's state, its reason and its controls after a change."""

    state: str
    state_reason: str | None
    controls: tuple[Control, ...]


class RulesChanged(msgspec.Struct, frozen=True):
    """All rules of the card after a change, and those that the change wrote."""

    rules: tuple[Rule, ...]
    written: tuple[Rule, ...]


class CardReplaced(msgspec.Struct, frozen=True, gc=False):
    """The card was replaced."""

    replacement_id: str
    reason: str


class CardholderSet(msgspec.Struct, frozen=True, gc=False):
    """Whether the card's cardholder is active, after a change."""

    active: bool


class BalanceDeclared(msgspec.Struct, frozen=True, gc=False):
    """The card's declared balance after a declaration or a stand-in."""

    declared: DeclaredBalance


class UsageCounted(msgspec.Struct, frozen=True, gc=False):
    """Changes of the approved amount and the number of purchases of ``day``; negative for a reversal.
    Has no effect if ``day`` is past."""

    day: str
    amount_minor: int
    count: int


class Cvv2Failed(msgspec.Struct, frozen=True, gc=False):
    """A wrong CVV2 was presented on ``day``."""

    day: str


class TombstoneSet(msgspec.Struct, frozen=True):
    """Tombstones were left at ``recorded_ms``: for messages that were reversed before they came, or marked by
    an edge's reversal or a network's approval."""

    references: tuple[str, ...]
    recorded_ms: int


class AuthorizationOpened(msgspec.Struct, frozen=True, gc=False):
    """A transaction was opened, approved or declined; ``held_minor`` is the amount of its hold."""

    authorization: Authorization
    held_minor: int


class AuthorizationUpdated(msgspec.Struct, frozen=True, gc=False):
    """The fields of an earlier transaction after a change."""

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
    """The rest of the increment that the message ``reference`` requested (``Increment``)."""

    reference: str
    left_minor: int
    day: str
    counted_minor: int


class HoldPlaced(msgspec.Struct, frozen=True, gc=False):
    """A hold was placed."""

    hold: Hold


class HoldResized(msgspec.Struct, frozen=True, gc=False):
    """A hold has another amount, or a later expiry."""

    hold_id: str
    amount_minor: int
    expires_ms: int


class HoldClosed(msgspec.Struct, frozen=True, gc=False):
    """A command closed a hold."""

    hold_id: str
    state: Closed


class HoldLapsed(msgspec.Struct, frozen=True, gc=False):
    """A hold expired. Its authorization may belong to another card of the account, and may not be in
    memory."""

    hold_id: str
    authorization_id: str


class Transferred(msgspec.Struct, frozen=True, gc=False):
    """A transfer between the card's account and another account of the programme was posted."""

    transfer_id: str
    debit_entry_id: str
    credit_entry_id: str
    other_account_id: str
    direction: Literal["debit", "credit"]
    """Seen from the card's account: ``credit`` raises its balance."""
    amount_minor: int
    authorization_id: str | None


class StandInRecorded(msgspec.Struct, frozen=True):
    """A decision was made in stand-in; the activity report lists it."""

    id: str
    authorization_id: str
    stand_in: StandIn
    decision: Literal["approved", "declined"]
    amount_minor: int
    currency: str
    mcc: str
    response_code: str
    stan: str
    rrn: str


CardEffect = (
    CardIssued
    | CardChanged
    | RulesChanged
    | CardReplaced
    | CardholderSet
    | BalanceDeclared
    | UsageCounted
    | Cvv2Failed
    | TombstoneSet
    | StandInRecorded
)
AuthorizationEffect = AuthorizationOpened | AuthorizationUpdated | IncrementSet
AccountEffect = HoldPlaced | HoldResized | HoldClosed | HoldLapsed | Transferred
Effect = CardEffect | AuthorizationEffect | AccountEffect
