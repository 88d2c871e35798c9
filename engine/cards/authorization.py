"""An authorization over its whole life: what was approved, what of it was cleared or given back, and under
which names networks speak of it.

``remainder`` of an approved purchase is what may still be held. Whether it *is* held, the account's open
holds say: a hold that is not open and was neither captured nor released has lapsed. In gateway mode nothing
is held here: ``remainder`` alone says what is still to come, and nothing ends by time.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from engine.cards.account import Account
from engine.cards.hold import Hold
from engine.commands import reference_of_id, reference_of_message, reference_of_network

Kind = Literal["purchase", "refund", "force_post", "verification"]
Closed = Literal["captured", "released"]


class Authorization(msgspec.Struct, kw_only=True):
    """Amounts in minor units; ``day`` is the day label to which the approval counted."""

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
    """What is held for it, or was when its hold lapsed and has not been cleared since. In gateway mode, what
    has been neither cleared nor given back."""
    closed: Closed | None = None
    """How it ended, if by a command; lapses are told by the account."""
    decline_reason: str | None = None
    raised: dict[str, Increment] = msgspec.field(default_factory=dict)
    """Its increments, oldest first, by the name of their message (``reference_of_message``); also what an
    advice added on a later day."""
    stands_for: tuple[str, ...] = ()
    """Of an advice that came before its authorization, or in its place: the names of that message."""


class Increment(msgspec.Struct, frozen=True, gc=False):
    """What is left of one increment."""

    left_minor: int
    """What a reversal that names it gives back; 0 of one that was declined or given back."""
    day: str
    """The day label to which it counted."""
    counted_minor: int
    """What of it still counts toward that day."""


class OriginalView(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a follow-up sees of its original, stored beside its decision."""

    id: str
    approved_minor: int
    cleared_minor: int
    reversed_minor: int
    held_minor: int
    lapsed_minor: int
    """What a lapsed hold had still held; an increment has to cover it again."""
    open: bool
    """Whether an increment can raise it: its hold is open, or has lapsed; in gateway mode, some of it is
    still to come."""


def names(authorization: Authorization) -> tuple[str, ...]:
    """All references under which follow-ups may name it."""
    always = (reference_of_id(authorization.id), reference_of_message(authorization.command_key))
    if authorization.network_txn_id is None:
        return always
    return (*always, reference_of_network(authorization.network_txn_id))


def open_hold(authorization: Authorization, account: Account | None) -> Hold | None:
    """Its hold, while that is open."""
    if account is None or authorization.hold_id is None:
        return None
    return account.holds.get(authorization.hold_id)


def has_lapsed(authorization: Authorization, account: Account | None) -> bool:
    """Whether its hold ended by time."""
    ended = authorization.hold_id is not None and open_hold(authorization, account) is None
    return ended and authorization.closed is None


def gateway_open_minor(authorization: Authorization) -> int:
    """What is still to come of an authorization that the programme's own ledger keeps (gateway mode): neither
    cleared nor given back. Nothing, where this service keeps the balance."""
    relayed = authorization.hold_id is None and authorization.closed is None
    return authorization.remainder_minor if relayed else 0


def unpresented_refund_minor(authorization: Authorization) -> int:
    """Of an authorized refund: approved, not given back and not presented yet."""
    return max(0, authorization.approved_minor - authorization.reversed_minor - authorization.cleared_minor)


def status(authorization: Authorization, held: bool) -> str:
    """Its public status (contract, section 5); ``held`` tells whether its hold is open."""
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
