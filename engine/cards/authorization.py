"""An authorization: its approved, cleared and reversed amounts, and the references that name it.

``remainder_minor`` of an approved purchase is the amount that its hold has, or had when it lapsed. The
account's open holds decide whether it is held: a hold that is not open, captured or released has lapsed. In
gateway mode there is no hold: ``remainder_minor`` is the open amount, and it does not expire.
``authorization_states`` has the table of states.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.cards.account import Account
from engine.cards.hold import Hold
from engine.commands import reference_of_id, reference_of_message, reference_of_network
from engine.currencies import MerchantAmount

Kind = Literal["purchase", "refund", "force_post", "verification"]
Closed = Literal["captured", "released"]


class Authorization(msgspec.Struct, kw_only=True):
    """Amounts in minor units; ``day`` is the label of the day on which the approval counted."""

    id: str
    card_id: str
    kind: Kind
    currency: str
    day: str
    command_key: bytes
    network_txn_id: str | None
    requested_minor: int
    approved_minor: int
    cleared_minor: int = 0
    reversed_minor: int = 0
    hold_id: str | None = None
    remainder_minor: int = 0
    """The held amount, or the lapsed amount that was not cleared since. In gateway mode, the amount that is
    neither cleared nor reversed."""
    closed: Closed | None = None
    """The end of the authorization if a command ended it. A lapse is not recorded here."""
    decline_reason: str | None = None
    increments: dict[str, Increment] = msgspec.field(default_factory=dict)
    """Oldest first, by the reference of their message (``reference_of_message``). An amount that an advice
    added on a later day is stored like an increment."""
    merchant_amount: MerchantAmount | None = None
    """What the merchant charged in its own currency; ``requested_minor`` is that amount converted."""
    stands_for: tuple[str, ...] = ()
    """The references of the message that an advice replaced, or preceded."""


class Increment(msgspec.Struct, frozen=True, gc=False):
    """The rest of one increment."""

    left_minor: int
    """The amount that a reversal of the increment releases; 0 after a decline or a reversal."""
    day: str
    """The label of the day on which it counted."""
    counted_minor: int
    """The amount that still counts on that day."""


class OriginalView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The original of an increment, as it is stored with the decision on the increment."""

    id: str
    approved_minor: int
    cleared_minor: int
    reversed_minor: int
    held_minor: int
    lapsed_minor: int
    """The amount of a lapsed hold; an increment must cover it again."""
    open: bool
    """Whether an increment can raise it (``engine.cards.authorization_states``)."""

    @property
    def authorized_minor(self) -> int:
        """Its total before the increment: its open or lapsed amount and its cleared amount."""
        if self.lapsed_minor:
            return self.cleared_minor + self.lapsed_minor
        return max(self.cleared_minor, self.approved_minor - self.reversed_minor)


def references_of(authorization: Authorization) -> tuple[str, ...]:
    """All references of ``authorization``."""
    own = (reference_of_id(authorization.id), reference_of_message(authorization.command_key))
    if authorization.network_txn_id is None:
        return own
    return (*own, reference_of_network(authorization.network_txn_id))


def open_hold(authorization: Authorization, account: Account | None) -> Hold | None:
    """The open hold of ``authorization``, if it has one."""
    if account is None or authorization.hold_id is None:
        return None
    return account.holds.get(authorization.hold_id)


def has_lapsed(authorization: Authorization, account: Account | None) -> bool:
    """Whether its hold expired."""
    ended = authorization.hold_id is not None and open_hold(authorization, account) is None
    return ended and authorization.closed is None


def gateway_open_minor(authorization: Authorization) -> int:
    """The open amount of an authorization in gateway mode: neither cleared nor reversed. 0 in managed
    mode."""
    in_gateway_mode = authorization.hold_id is None and authorization.closed is None
    return authorization.remainder_minor if in_gateway_mode else 0


def unpresented_refund_minor(authorization: Authorization) -> int:
    """The amount of an authorized refund that is neither reversed nor presented."""
    return max(0, authorization.approved_minor - authorization.reversed_minor - authorization.cleared_minor)


def status(authorization: Authorization, held: bool) -> str:
    """The public status of a transaction; ``held`` says whether its hold is open."""
    if authorization.decline_reason is not None:
        return "declined"
    if gateway_open_minor(authorization):
        return "partially_cleared" if authorization.cleared_minor else "pending"
    if authorization.kind == "refund" and authorization.closed == "captured":
        return "cleared"
    if authorization.kind != "purchase" or authorization.approved_minor == 0:
        return "reversed" if 0 < authorization.approved_minor <= authorization.reversed_minor else "posted"
    if held:
        return "partially_cleared" if authorization.cleared_minor else "pending"
    if authorization.cleared_minor:
        return "cleared"
    return "reversed" if authorization.closed == "released" else "lapsed"
