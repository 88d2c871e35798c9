"""The result of a follow-up, and the parts that reversals, presentments and advices share.

A follow-up reports an event that has already happened outside, so funds, controls and the card's state cannot
decline it. The functions return effects and change nothing themselves. ``engine.authorization.reversal``,
``presentment`` and ``advice`` have the rules of managed mode, ``gateway`` those of programmes that keep their
own ledger; ``ops/docs/WIRE.md`` lists the cases.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal

import msgspec

from engine.authorization.effects import AuthorizationUpdated, Effect, Transferred
from engine.cards.authorization import Authorization, Closed
from engine.ids import Derived, derive
from engine.programmes.programme import ProgrammeConfig

_PROGRAMMES_CACHED: Final = 1_024
"""Programmes whose settlement accounts are not derived again: every presentment names one."""

MatchResult = Literal["late", "nothing_held", "unknown_original", "matched"]
"""``late``: a presentment found no open hold; ``nothing_held``: there was nothing to release or to correct;
``unknown_original``: a reversal came before its original; ``matched``: an authorized refund was presented."""


class FollowUpRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A follow-up as the journal stores it and the transaction's history shows it. Amounts in minor units."""

    type: Literal["reversal", "capture", "force_post", "refund", "advice", "lapse"]
    amount_minor: int
    held_minor: int = 0
    """The amount held for the authorization after the follow-up."""
    remark: MatchResult | None = None
    increment: str | None = None
    """The increment that a reversal named, by the reference of its message."""
    increment_left_minor: int | None = None
    """The rest of that increment."""
    released_minor: int = 0
    """In gateway mode: the amount that a final presentment for less releases."""
    decided: Literal["approved", "declined"] | None = None
    """Set when an advice replaces an earlier decision (``engine.authorization.network_decision``)."""
    approval_code: str | None = None
    """DE38 of an advice that approves."""
    uncounted: dict[str, int] = msgspec.field(default_factory=dict)
    """The amounts subtracted from the usage of each increment's day, by the references of the increments."""
    counted_day: str | None = None
    """The day whose usage an advice raised, if it is not the day of its sale."""
    counted_minor: int = 0
    """The amount that an advice added to a lapsed sale, if it counted on ``counted_day``."""
    rules: int = 0
    """The version of the rules of this package (``RULES``) that made the record."""


RULES: Final = 2
"""Version of the rules for follow-ups. Records without a version are of version 0, which posted one refund
for each network id, chose the newest transaction of a network id, reversed presented refunds, and subtracted
usage on the sale's day alone. Version 1 held the late authorization beside the advice that replaced it, held
nothing after an edge's reversal, and ignored the message that a presentment or an advice names beside the
network id."""


class FollowUpResult(msgspec.Struct, frozen=True):
    """The answer's DE39, the effects and the record of a follow-up."""

    response_code: str
    effects: tuple[Effect, ...] = ()
    record: FollowUpRecord | None = None


OK = "00"
INVALID_AMOUNT = "13"
WRONG_CURRENCY = "12"
NOT_PERMITTED = "57"
SENDER_NOT_PERMITTED = "58"


def transfer(
    root: str,
    other_account_id: str,
    direction: Literal["debit", "credit"],
    amount_minor: int,
    authorization_id: str | None,
) -> Transferred:
    """A transfer of the command ``root`` between the card's account and ``other_account_id``."""
    return Transferred(
        transfer_id=derive(root, Derived.TRANSFER),
        debit_entry_id=derive(root, Derived.ENTRY_DEBIT),
        credit_entry_id=derive(root, Derived.ENTRY_CREDIT),
        other_account_id=other_account_id,
        direction=direction,
        amount_minor=amount_minor,
        authorization_id=authorization_id,
    )


def settlement_account_id(programme: ProgrammeConfig) -> str:
    """The programme's settlement account, which holds the positions with the networks."""
    return _settlement_account_id(programme.id)


@lru_cache(maxsize=_PROGRAMMES_CACHED)
def _settlement_account_id(programme_id: str) -> str:
    return derive(programme_id, Derived.SETTLEMENT)


def updated(
    original: Authorization,
    *,
    approved_minor: int = 0,
    cleared_minor: int = 0,
    reversed_minor: int = 0,
    held_minor: int,
    remainder_minor: int | None = None,
    hold_id: str | None = None,
    closed: Closed | None = None,
    day: str | None = None,
) -> AuthorizationUpdated:
    """``original`` after the approved, cleared and reversed amounts have changed by these differences.

    ``hold_id`` names a new hold, which reopens an authorization that was closed or declined.
    """
    return AuthorizationUpdated(
        approved_minor=original.approved_minor + approved_minor,
        cleared_minor=original.cleared_minor + cleared_minor,
        reversed_minor=original.reversed_minor + reversed_minor,
        hold_id=hold_id or original.hold_id,
        closed=None if hold_id else closed or original.closed,
        decline_reason=None if hold_id else original.decline_reason,
        held_minor=held_minor,
        remainder_minor=held_minor if remainder_minor is None else remainder_minor,
        day=day or original.day,
    )
